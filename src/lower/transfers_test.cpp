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

// Two gradients, of which only the optimizer reads the pieces, through views.
constexpr const char* kScatters = R"(program @p on <data=2>

block @step ranks 0 to 1 {
  input %x : f32[4, 4] = batch "0" at [-, -]
  input %w : f32[2, 4] = parameter "w" trained at [data, -]
  input %v : f32[2, 4] = parameter "v" trained at [data, -]
backward:
  %g = aten.neg(%x) : f32[4, 4] at [-, -] +{data}
  start %g.piece = reduce_scatter(%g) over {data}
  wait %g.piece
  %g.view = aten.view(%g.piece, [2, 4]) : f32[2, 4] at [data, -]
  %g.unread = aten.t(%g.view) : f32[4, 2]{1, 4} at [-, data]
  %h = aten.exp(%x) : f32[4, 4] at [-, -] +{data}
  start %h.piece = reduce_scatter(%h) over {data}
  wait %h.piece
  %h.view = aten.view(%h.piece, [2, 4]) : f32[2, 4] at [data, -]
optimizer:
  %w.new = aten.sub.Tensor(%w, %g.view) : f32[2, 4] at [data, -]
  %v.new = aten.sub.Tensor(%v, %h.view) : f32[2, 4] at [data, -]
  return parameter "w" = %w.new
  return parameter "v" = %v.new
}
)";

TEST(LowerTransfers, ViewsDoNotKeepScattersApart) {
  const std::string text =
      passed({{"late_views", late_views}, {"bucket", bucket}}, kScatters);
  EXPECT_TRUE(in_order(
      text,
      {"%h = aten.exp(%x)",
       "start %g.piece, %h.piece = reduce_scatter(%g, %h) over {data}",
       "wait %g.piece",
       "%g.view = ",
       "%w.new = ",
       "%h.view = "}))
      << text;
  EXPECT_EQ(text.find("%g.unread"), std::string::npos) << text;
}

TEST(LowerTransfers, AScatterLeavesBeforeItsOperandIsTakenOver) {
  std::string text = kScatters;
  const std::string wait = "  wait %h.piece\n";
  text.insert(
      text.find(wait) + wait.size(),
      "  start %g.sum = all_reduce(%g) over {data}\n  wait %g.sum\n");
  text = passed({{"late_views", late_views}, {"bucket", bucket}}, text);
  EXPECT_TRUE(in_order(
      text, {"start %g.piece, %h.piece", "wait %g.piece", "start %g.sum"}))
      << text;
}

// The first rank reads its sum where the other only looks at it.
constexpr const char* kUnequal = R"(program @p on <data=2>

block @first ranks 0 to 0 {
  input %x : f32[4] = batch "0" at [-]
forward:
  %a = aten.neg(%x) : f32[4] at [-] +{data}
  start %a.sum = all_reduce(%a) over {data}
  wait %a.sum
  %b = aten.exp(%x) : f32[4] at [-] +{data}
  start %b.sum = all_reduce(%b) over {data}
  wait %b.sum
  %r = aten.relu(%a.sum) : f32[4] at [-]
  %c = aten.sin(%x) : f32[4] at [-] +{data}
  start %c.sum = all_reduce(%c) over {data}
  wait %c.sum
  return gradient "r" = %r
  return gradient "b" = %b.sum
  return gradient "c" = %c.sum
}

block @second ranks 1 to 1 {
  input %x : f32[4] = batch "0" at [-]
forward:
  %a = aten.neg(%x) : f32[4] at [-] +{data}
  start %a.sum = all_reduce(%a) over {data}
  wait %a.sum
  %b = aten.exp(%x) : f32[4] at [-] +{data}
  start %b.sum = all_reduce(%b) over {data}
  wait %b.sum
  %c = aten.sin(%x) : f32[4] at [-] +{data}
  start %c.sum = all_reduce(%c) over {data}
  wait %c.sum
  %r = aten.relu(%a.sum) : f32[4] at [-]
  return gradient "r" = %r
  return gradient "b" = %b.sum
  return gradient "c" = %c.sum
}
)";

TEST(LowerTransfers, BlocksThatDifferHaveTheSameBuckets) {
  const std::string text = passed({{"bucket", bucket}}, kUnequal);
  const std::string both = "start %a.sum, %b.sum = all_reduce(%a, %b)";
  const std::string last = "start %c.sum = all_reduce(%c)";
  // It leaves as soon as nothing more will join it: %c is computed meanwhile.
  EXPECT_TRUE(in_order(
      text, {both, "%r = ", last, "input %x", both, "%c = ", last, "%r = "}))
      << text;
}

// Two layers of two parameters each, and one more that is made in the step.
constexpr const char* kLayers = R"(program @p on <data=2>

block @step ranks 0 to 1 {
  input %x : f32[4, 4] = batch "0" at [-, -]
  input %l.0.a : f32[2, 4] = parameter "l.0.a" at [data, -]
  input %l.0.b : f32[2, 4] = parameter "l.0.b" at [data, -]
  input %l.1.a : f32[2, 4] = parameter "l.1.a" at [data, -]
forward:
  start %a = all_gather(%l.0.a) over {data}
  wait %a
  %y = aten.mul.Tensor(%x, %a) : f32[4, 4] at [-, -]
  start %b = all_gather(%l.0.b) over {data}
  wait %b
  %z = aten.mul.Tensor(%y, %b) : f32[4, 4] at [-, -]
  %made = aten.add.Tensor(%l.0.a, %l.0.b) : f32[2, 4] at [data, -]
  start %m = all_gather(%made) over {data}
  wait %m
  %u = aten.mul.Tensor(%z, %m) : f32[4, 4] at [-, -]
  %half = aten.alias(%l.1.a) : f32[2, 4] at [data, -]
  start %c = all_gather(%half) over {data}
  wait %c
  %v = aten.mul.Tensor(%u, %c) : f32[4, 4] at [-, -]
  return gradient "v" = %v
}
)";

TEST(LowerTransfers, LayersAreGatheredAsOneAndALayerAhead) {
  const std::string text = passed({{"gather_ahead", gather_ahead}}, kLayers);
  EXPECT_TRUE(in_order(
      text,
      {"start %a, %b = all_gather(%l.0.a, %l.0.b)",
       "wait %a",
       "%half = aten.alias(%l.1.a)",
       "start %c = all_gather(%half)",
       "%y = ",
       "%z = ",
       "start %m = all_gather(%made)",
       "wait %m",
       "wait %c",
       "%v = "}))
      << text;
  EXPECT_EQ(text.find("wait %b"), std::string::npos) << text;
}

// The peak is where %big lives: the layer behind it is not gathered before.
TEST(LowerTransfers, ALayerStartsBehindThePeak) {
  std::string text = kLayers;
  const std::string next = "  %half = ";
  text.insert(
      text.find(next),
      "  %big = aten.repeat(%u, [99, 1]) : f32[396, 4] at [-, -]\n"
      "  %big.1 = aten.exp(%big) : f32[396, 4] at [-, -]\n"
      "  %big.2 = aten.add.Tensor(%big, %big.1) : f32[396, 4] at [-, -]\n"
      "  %small = aten.sum(%big.2) : f32[] at []\n"
      "  %small.1 = aten.exp(%small) : f32[] at []\n");
  text.replace(
      text.find("gradient \"v\" = %v"),
      17,
      "gradient \"v\" = %v\n"
      "  return gradient \"s\" = %small.1");
  text = passed({{"gather_ahead", gather_ahead}}, text);
  EXPECT_TRUE(in_order(text, {"%big.1 = ", "start %c = ", "wait %c"})) << text;
}

}  // namespace
}  // namespace weft
