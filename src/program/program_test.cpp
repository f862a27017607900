// SPDX-License-Identifier: Apache-2.0
#include "program/program.h"

#include "base/error.h"
#include "base/text.h"
#include "program/live_bytes.h"
#include "program/piece.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr const char* kProgram = R"(program @mlp on <data=2>
constant %steps : i64[2] = hex "01000000000000000200000000000000"

block @step ranks 0 to 1 {
  input %x : f32[2, 8] = batch "0" at [data, -]
  input %w : f32[8, 3] = parameter "w" trained at [-, -]
forward:
  %h = aten.mm(%x, %w) : f32[2, 3] at [data, -]
backward:
  %t = aten.t(%x) : f32[8, 2]{1, 8} at [-, data]
  %g = aten.mm(%t, %h) : f32[8, 3] at [-, -] +{data}
  start %g.sum = all_reduce(%g) over {data}
  free %x, %h
  wait %g.sum
  return gradient "w" = %g.sum
}
)";

// The error after `before` became `after` in the text.
std::string message_with(const std::string& before, const std::string& after) {
  std::string text = kProgram;
  text.replace(text.find(before), before.size(), after);
  try {
    verify(parse_program(text, "p"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Program, PrintsWhatItParsed) {
  const Program program = parse_program(kProgram, "p");
  verify(program);
  EXPECT_EQ(print(program), kProgram);
  EXPECT_EQ(parse_program(print(program), "again"), program);
}

// Two teams: two ranks that share a batch, and one.
constexpr const char* kTeams = R"(program @mlp on <data=2>, <>

block @step.0 ranks 0 to 1 {
  input %x : f32[2, 8] = batch "0" at [data, -]
forward:
  %s = aten.sum(%x) : f32[] at [] +{data}
  start %s.sum = all_reduce(%s) over {data}
  wait %s.sum
  return loss = %s.sum
}

block @step.2 ranks 2 to 2 {
  input %x : f32[4, 8] = batch "0" at [-, -]
forward:
  %s = aten.sum(%x) : f32[] at []
  return loss = %s
}
)";

TEST(Program, TeamsHaveMeshesOfTheirOwn) {
  const Program program = parse_program(kTeams, "p");
  verify(program);
  EXPECT_EQ(print(program), kTeams);
  EXPECT_EQ(rank_count(program), 3);
  const Team last = team_of(program, 2);
  EXPECT_EQ(print(last.mesh), "<>");
  EXPECT_EQ(number_in(last, 2), 0);
  EXPECT_EQ(
      group_of(team_of(program, 1), {"data"}, 1), std::vector<int64_t>({0, 1}));
  const auto pieces = [&](int64_t rank) {
    const Block& block = block_of(program, rank);
    return level_pieces(
        program, block, block.function.inputs.front().value, rank);
  };
  EXPECT_EQ(pieces(1).front().start, 2);
  EXPECT_EQ(pieces(2).front().size, 4);
  EXPECT_THROW(team_of(program, 3), UserError);
}

TEST(Program, ABlockIsOfOneTeam) {
  std::string text = kTeams;
  const std::string before = "<data=2>, <>";
  text.replace(text.find(before), before.size(), "<>, <data=2>");
  try {
    verify(parse_program(text, "p"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(
        std::string(error.what())
            .find("ranks 0 to 1 are not all on the mesh <>, which begins at "
                  "rank 0"),
        std::string::npos)
        << error.what();
  }
}

TEST(Program, ViewsAndCollectivesLieInTheirOperandsStorage) {
  const Program program = parse_program(kProgram, "p");
  const Block& block = block_of(program, 1);
  const std::vector<ValueId> storage = storages(block);
  EXPECT_EQ(storage[3], storage[0]);  // %t in %x
  EXPECT_EQ(storage[5], storage[4]);  // %g.sum in %g
  EXPECT_THROW(block_of(program, 2), UserError);
}

TEST(Program, LiveBytesFollowStorages) {
  const Program program = parse_program(kProgram, "p");
  // x 64, w 96; h 24; t nothing; g 96; the collective nothing; x and h go.
  EXPECT_EQ(
      live_bytes(program.blocks.front()),
      (std::vector<int64_t>{184, 184, 280, 280, 192, 192}));
}

TEST(Program, GroupsAreTheRanksThatDifferInTheAxesOnly) {
  const Mesh mesh = parse_mesh("<data=2, tensor=3>");
  EXPECT_EQ(group_of(mesh, {"tensor"}, 4), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(group_of(mesh, {"data"}, 4), (std::vector<int64_t>{1, 4}));
}

TEST(Program, PiecesKeepTheOrderOfStrides) {
  const Mesh mesh = parse_mesh("<data=2, tensor=2>");
  const Layout layout = parse_layout("[data, -, tensor]");
  EXPECT_EQ(
      print(local_type(parse_type("f32[4, 6, 8]"), layout, mesh, 0)),
      "f32[2, 6, 4]");
  // A slice of three times the width keeps its gaps.
  EXPECT_EQ(
      print(
          local_type(parse_type("f32[4, 6, 8]{144, 24, 1}"), layout, mesh, 0)),
      "f32[2, 6, 4]{72, 12, 1}");
  EXPECT_EQ(
      print(local_type(parse_type("f32[4, 6, 8]{1, 4, 24}"), layout, mesh, 0)),
      "f32[2, 6, 4]{1, 2, 12}");
  EXPECT_EQ(
      print(local_type(parse_type("f32[4, 6, 8]{0, 8, 1}"), layout, mesh, 0)),
      "f32[2, 6, 4]{0, 4, 1}");
  const Piece piece = piece_of(mesh, {"tensor", "data"}, 8, 1);
  EXPECT_EQ(piece.start, 4);
  EXPECT_EQ(piece.size, 2);
}

TEST(ProgramVerify, ReadsAndFrees) {
  const std::string start = "program @mlp, block @step, ";
  EXPECT_EQ(
      message_with("  free %x, %h\n", "  free %x, %t\n"),
      start + "instruction 4 (free %x, %t): %t is freed for the second time");
  EXPECT_EQ(
      message_with("  %g = aten", "  free %x\n  %g = aten"),
      start + "instruction 3 (%g = aten.mm): %t is read after it was freed");
  EXPECT_EQ(
      message_with("free %x, %h", "free %g"),
      start +
          "instruction 4 (free %g): %g is read after its storage was "
          "taken over");
  EXPECT_EQ(
      message_with("  wait %g.sum\n", ""),
      start + "the end: %g.sum is read before its wait");
  EXPECT_EQ(
      message_with("  wait %g.sum\n", "  wait %g.sum\n  wait %g.sum\n"),
      start + "instruction 6 (wait %g.sum): %g.sum has no start to wait for");
}

// What sizes of the whole follow from is looked at before they are made.
TEST(ProgramVerify, WhatIsNoLayoutAtAll) {
  EXPECT_EQ(
      message_with("[data, -]\n  input", "[dota, -]\n  input"),
      "program @mlp, block @step: %x: [layout] [dota, -] names the axis "
      "'dota', "
      "which is not on the mesh <data=2>");
  EXPECT_NE(
      message_with("[data, -]\n  input", "[(2 data), -]\n  input")
          .find("%x: [layout] [(2 data), -]: every level of dim 0 needs a size "
                "above 0"),
      std::string::npos);
  EXPECT_NE(
      message_with(
          "[data, -]\n  input", "[(4294967296 data:4294967296), -]\n  input")
          .find("64 bits have to count them"),
      std::string::npos);
  EXPECT_NE(
      message_with("[-, -] +{data}", "[-] +{data}").find("has 1 dims"),
      std::string::npos);
  EXPECT_NE(
      message_with("all_reduce(%g) over {data}", "all_gather(%g) over {dota}")
          .find("over the axis 'dota', which is not on the mesh"),
      std::string::npos);
}

TEST(ProgramVerify, MeshesAreMeshes) {
  EXPECT_EQ(
      message_with("<data=2>", "<data=0>"),
      "p:1:23: the size of axis data must be a whole number, from 1 to "
      "1,000,000, found 0");
  EXPECT_EQ(
      message_with("<data=2>", "<a=4294967296, b=4294967296>"),
      "p:1:20: the size of axis a must be a whole number, from 1 to "
      "1,000,000, found 4294967296");
  EXPECT_EQ(
      message_with("<data=2>", "<a=9223372036854775807>, <b=2>"),
      "p:1:20: the size of axis a must be a whole number, from 1 to "
      "1,000,000, found 9223372036854775807");
}

TEST(ProgramVerify, Layouts) {
  const std::string start = "program @mlp, block @step, ";
  EXPECT_EQ(
      message_with("at [-, -] +{data}", "at [-, -]"),
      start +
          "instruction 3 (start %g.sum = all_reduce): %g is no partial sum "
          "over {data}");
  EXPECT_EQ(message_with("= %g.sum", "= %w"), "no error");
  EXPECT_EQ(
      message_with("  start %g.sum = all_reduce(%g) over {data}\n", "")
          .substr(0, 4),
      "p:13");
  EXPECT_EQ(
      message_with("ranks 0 to 1", "ranks 0 to 0"),
      "program @mlp: blocks for 1 rank(s), and the mesh <data=2> has 2");
}

constexpr const char* kStages = R"(program @stages on <stage=2>

block @first ranks 0 to 0 {
  input %x : f32[2, 8] = batch "0" at [-, -] offset(0)
forward:
  %y = aten.relu(%x) : f32[2, 8] at [-, -] overwrites(%x)
  start %y.sent = send(%y) to 1
  start %y.kept = copy(%y) to host
  wait %y.sent
  wait %y.kept
  free %y
  start %y.back = copy(%y.kept) to device offset(64)
  start %g = receive : f32[2, 8] at [-, -] offset(128) from 1
  wait %y.back
  wait %g
  free %y.kept
backward:
  %d, %m = aten.native_dropout(%g, 0.5, true) : f32[2, 8], bool[2, 8] at [-, -], [-, -] overwrites(%g, -) offset(-, 0) scratch(192, 64)
  free %y.back, %m
  return loss = %d
}

block @second ranks 1 to 1 {
  start %y = receive : f32[2, 8] at [-, -] from 0
  wait %y
  start %y.sent = send(%y) to 0
  wait %y.sent
  free %y
}
)";

std::string stages_with(const std::string& before, const std::string& after) {
  std::string text = kStages;
  text.replace(text.find(before), before.size(), after);
  try {
    verify(parse_program(text, "p"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ProgramTransfers, PrintWhatTheyParsed) {
  const Program program = parse_program(kStages, "p");
  verify(program);
  EXPECT_EQ(print(program), kStages);
  EXPECT_EQ(parse_program(print(program), "again"), program);
  const Block& block = program.blocks.front();
  EXPECT_EQ(arena_bytes(block), 256);
  EXPECT_EQ(resident_bytes(block), 0);
}

TEST(ProgramTransfers, ADeadlockIsAnError) {
  const std::string start = "program @stages";
  EXPECT_EQ(
      stages_with("  start %y.sent = send(%y) to 0\n  wait %y.sent\n", ""),
      start +
          ", block @first, instruction 9 (wait %g): rank 0 waits for ever: "
          "rank 1 never starts its part before");
  EXPECT_EQ(
      stages_with(
          "receive : f32[2, 8] at [-, -] from 0",
          "receive : f32[8] at [-] from 0"),
      start +
          ", block @second, instruction 0 (start %y = receive): rank 1 starts "
          "a transfer of f32[8] where rank 0 starts one of f32[2, 8]");
  EXPECT_EQ(
      stages_with("send(%y) to 1", "send(%y) to 7"),
      start +
          ", block @first, instruction 1 (start %y.sent = send): there is no "
          "other rank 7");
}

TEST(ProgramTransfers, MemoryOnTheHostAndInTheArena) {
  const std::string start = "program @stages, block @first, instruction ";
  EXPECT_EQ(
      stages_with("aten.native_dropout(%g", "aten.native_dropout(%y.kept"),
      start +
          "11 (%d, %m = aten.native_dropout): %y.kept is read after it was "
          "freed");
  EXPECT_EQ(
      stages_with("  wait %y.sent\n  wait %y.kept\n  free %y\n", "  free %y\n"),
      start + "3 (free %y): %y.sent still waits for its transfer");
  EXPECT_EQ(
      stages_with("offset(128) from 1", "offset(96) from 1"),
      start +
          "7 (start %g = receive): %g at 96 lies over %y.back, which is still "
          "in use");
  EXPECT_EQ(
      stages_with("scratch(192, 64)", "scratch(128, 64)"),
      start +
          "11 (%d, %m = aten.native_dropout): the scratch memory at 128 lies "
          "over %g, which is still in use");
  EXPECT_EQ(
      stages_with("copy(%y.kept) to device", "copy(%y.kept) to host"),
      start + "6 (start %y.back = copy): %y.kept lies on the host already");
}

}  // namespace
}  // namespace weft
