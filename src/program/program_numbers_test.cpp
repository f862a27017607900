// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "program/live_bytes.h"
#include "program/program.h"
#include "program/timeline.h"

namespace weft {
namespace {

TEST(ProgramNumbers, OfAProgram) {
  for (const char* text :
       {R"(program @mlp on <data=2> in <micro=2>
constant %steps : i64[2] = hex "01000000000000000200000000000000"

block @step ranks 0 to 1 {
  input %x : f32[2, 8] = batch "x" at [data, -] offset(0)
  input %w : f32[8, 3] = parameter "w" trained at [-, -]
forward:
  %h = aten.mm(%x, %w) : f32[2, 3] at [data, -] part 1 offset(64) scratch(1024, 64)
backward:
  %t = aten.t(%x) : f32[8, 2]{1, 8} at [-, data]
  %g = aten.mm(%t, %h) : f32[8, 3] at [-, -] +{data} offset(128)
  start %sum = all_reduce(%g) over {data}
  free %x, %h
  wait %sum
  return gradient "w" = %sum
}
)",
        R"(program @pair on <>, <>

block @first ranks 0 to 0 {
  input %x : f32[2, 8] = batch "x" at [-, -]
forward:
  start %out = send(%x) to 1
  wait %out
}

block @second ranks 1 to 1 {
forward:
  start %in = receive : f32[2, 8] at [-, -] from 0
  wait %in
  return loss = %in
}
)"}) {
    expect_bounded_numbers(
        text, {"p:", "program @"}, [](const std::string& changed) {
          const Program program = parse_program(changed, "p");
          verify(program);
          EXPECT_EQ(parse_program(print(program), "again"), program);
        });
  }
}

TEST(ProgramNumbers, OfATimeline) {
  expect_bounded_numbers(
      "timeline @mlp\n"
      "0 compute 0 0.0 0.5 live 64 \"%h = aten.mm\"\n"
      "0 communication 1 0.5 0.75 live 64 \"start %g.sum = all_reduce\"\n"
      "1 compute 0 0.0 0.25 live 128 \"%h = aten.mm\"\n",
      {"t:", "timeline @"},
      [](const std::string& text) {
        const Timeline timeline = parse_timeline(text, "t");
        verify(timeline);
        EXPECT_EQ(parse_timeline(print(timeline), "again"), timeline);
      });
}

}  // namespace
}  // namespace weft
