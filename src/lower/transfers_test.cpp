// SPDX-License-Identifier: Apache-2.0
// Passes keep what transfers read until their wait.
#include "lower/pass.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// A weight in pieces: gathered to be read, its gradient scattered, its new
// pieces gathered again. Every start is waited for at once.
constexpr const char* kPieces = R"(program @p on <data=2>

block @step ranks 0 to 1 {
  input %x : f32[4, 4] = batch "0" at [-, -]
  input %w : f32[2, 4] = parameter "w" trained at [data, -]
  start %w.whole = all_gather(%w) over {data}
  wait %w.whole
forward:
  %y = aten.mul.Tensor(%x, %w.whole) : f32[4, 4] at [-, -]
backward:
  %g = aten.neg(%y) : f32[4, 4] at [-, -] +{data}
  start %g.piece = reduce_scatter(%g) over {data}
  wait %g.piece
  %h = aten.exp(%y) : f32[4, 4] at [-, -] +{data}
  start %h.sum = all_reduce(%h) over {data}
  wait %h.sum
optimizer:
  %w.new = aten.sub.Tensor(%w, %g.piece) : f32[2, 4] at [data, -]
  start %w.next = all_gather(%w.new) over {data}
  wait %w.next
  %n = aten.neg(%w.next) : f32[4, 4] at [-, -]
  return gradient "n" = %n
  return gradient "h" = %h.sum
  return parameter "w" = %w.new
}
)";

std::string passed(
    const std::vector<Pass>& passes, const std::string& text = kPieces) {
  const Plan plan;
  const Cluster cluster;
  Lowering lowering = {
      .plan = plan,
      .cluster = cluster,
      .graph = {},
      .reads = {},
      .unexpanded = {},
      .layouts = {},
      .resting = {},
      .assignments = {},
      .program = parse_program(text, "p")};
  // The driver verifies after each.
  run_passes(passes, lowering, LowerOptions());
  return print(lowering.program);
}

// Whether the lines stand in the text in this order.
bool in_order(const std::string& text, const std::vector<std::string>& lines) {
  size_t at = 0;
  for (const std::string& line : lines) {
    at = text.find("  " + line, at);
    if (at == std::string::npos) {
      return false;
    }
    at += line.size();
  }
  return true;
}

TEST(LowerTransfers, AllPassesTogether) {
  const std::string text = passed(
      {{"bucket", bucket},
       {"update_early", update_early},
       {"overlap", overlap},
       {"carry", carry},
       {"in_place", in_place},
       {"lifetimes", lifetimes},
       {"place", place}});
  // The update comes before the gathering of what it makes, and in place.
  EXPECT_TRUE(in_order(
      text,
      {"start %g.piece = reduce_scatter(%g)",
       "wait %g.piece",
       "%w.new = aten.sub.Tensor(%w, %g.piece)",
       "start %w.next = all_gather(%w.new)",
       "wait %w.next"}))
      << text;
  EXPECT_NE(text.find("overwrites(%w)"), std::string::npos) << text;
  // What is read stays until the wait.
  EXPECT_TRUE(
      in_order(text, {"start %g.piece", "wait %g.piece", "free %g"}) ||
      in_order(text, {"start %g.piece", "wait %g.piece", "free %g.piece, %g"}))
      << text;
}

TEST(LowerTransfers, AWaitComesBeforeItsOperandIsTakenOver) {
  std::string text = kPieces;
  const std::string wait = "  wait %g.piece\n";
  text.insert(
      text.find(wait) + wait.size(),
      "  start %g.sum = all_reduce(%g) over {data}\n  wait %g.sum\n");
  text = passed({{"overlap", overlap}}, text);
  EXPECT_TRUE(
      in_order(text, {"start %g.piece", "wait %g.piece", "start %g.sum"}))
      << text;
}

TEST(LowerTransfers, AWaitStandsBeforeTheFirstReader) {
  const std::string text = passed({{"overlap", overlap}});
  EXPECT_TRUE(in_order(
      text,
      {"start %g.piece = reduce_scatter(%g)",
       "%h = aten.exp(%y)",
       "start %h.sum",
       "wait %g.piece",
       "%w.new = "}))
      << text;
}

TEST(LowerTransfers, WithoutMovingWaits) {
  const std::string text = passed(
      {{"carry", carry},
       {"in_place", in_place},
       {"lifetimes", lifetimes},
       {"place", place}});
  EXPECT_TRUE(in_order(text, {"start %w.next", "wait %w.next", "%n = "}))
      << text;
}

}  // namespace
}  // namespace weft
