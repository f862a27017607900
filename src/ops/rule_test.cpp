// SPDX-License-Identifier: Apache-2.0
#include "ops/rule.h"

#include "base/error.h"
#include "ops/example.h"
#include "ops/reshape.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// The rule of a call, printed.
std::string sized(std::string_view text, std::string_view call) {
  OpDef def = {.name = "aten.test"};
  Example example = parse_example(def, call);
  return print(rule_from_text(text, example.function, example.node));
}

TEST(Rule, TakesSizesFromOperands) {
  EXPECT_EQ(
      sized("m k, k n -> m n", "(f32[8, 4], f32[4, 12])"),
      "m=8 k=4, k n=12 -> m n");
}

TEST(Rule, KeepsMarks) {
  EXPECT_EQ(
      sized("a! b?, c:mean -> a b", "(f32[2, 3], f32[4])"),
      "a=2! b=3?, c=4:mean -> a b");
  EXPECT_EQ(sized("n h~ -> n h=6", "(f32[2, 8])"), "n=2 h=6~ -> n h");
}

TEST(Rule, MarksOneDimWithHalo) {
  OpDef def = {.name = "aten.test"};
  Example example = parse_example(def, "(f32[2, 8])");
  Rule rule = rule_from_text("n h~ -> n h=6", example.function, example.node);
  ASSERT_EQ(rule.halos.size(), 1u);
  EXPECT_EQ(rule.halos[0], (HaloDim{1, false, 0, 1}));
  EXPECT_EQ(rule.factors[1].kind, FactorKind::Halo);
}

TEST(Rule, BroadcastsEllipsis) {
  EXPECT_EQ(
      sized("..., ... -> ...", "(f32[8, 1, 4], f32[3, 1])"),
      "dim0=8 1 dim2=4, dim1=3 1 -> dim0 dim1 dim2");
  EXPECT_EQ(sized("... d -> ...", "(f32[5])"), "d=5 -> ()");
  EXPECT_EQ(
      sized("n ... -> n ...", "(f32[2, 3, 4])"),
      "n=2 dim0=3 dim1=4 -> n dim0 dim1");
}

TEST(Rule, TakesBroadcastDimsOut) {
  EXPECT_EQ(
      sized("m n, m k, k n -> m n", "(f32[1, 12], f32[8, 4], f32[4, 12])"),
      "1 n=12, m=8 k=4, k n -> m n");
}

TEST(Rule, SolvesProducts) {
  EXPECT_EQ(sized("(a=2 b) -> a b", "(f32[6])"), "(a=2 b=3) -> a b");
}

TEST(Rule, PassesOverAbsentOperands) {
  EXPECT_EQ(
      sized("... d!, d!, d! -> ... d!", "(f32[8, 4], [4], none, f32[4])"),
      "dim0=8 d=4!, d -> dim0 d");
  EXPECT_EQ(
      sized("..., ..., ... -> ...", "(bool[8], 0.5, f32[8])"),
      "dim0=8, dim0 -> dim0");
}

TEST(Rule, LeavesOutWhatTakesNoPart) {
  EXPECT_EQ(sized("_, n -> n, _", "(f32[3], f32[8])"), "1, n=8 -> n, _");
}

TEST(Rule, TellsPartialResults) {
  OpDef def = {.name = "aten.test"};
  Example example = parse_example(def, "(f32[8, 4])");
  Rule rule =
      rule_from_text("n! d -> n d, n, _", example.function, example.node);
  int n = find_factor(rule, "n");
  int d = find_factor(rule, "d");
  EXPECT_FALSE(is_summed(rule, d, 0));
  EXPECT_TRUE(is_summed(rule, d, 1));
  EXPECT_FALSE(is_summed(rule, d, 2));
  EXPECT_FALSE(is_summed(rule, n, 1));
}

TEST(Rule, RejectsWhatDoesNotFit) {
  for (const auto& [text, call] :
       std::vector<std::pair<std::string_view, std::string_view>>{
           {"m k, k n -> m n", "(f32[8, 4], f32[5, 12])"},
           {"m k -> m", "(f32[8])"},
           {"m k -> m z", "(f32[8, 4])"},
           {"m -> m", "(f32[8], f32[8])"},
           {"m k m", "(f32[8, 4])"},
           {"m ; k -> m", "(f32[8, 4])"},
           {"m _ -> m", "(f32[8, 4])"},
           {"m:middle -> ()", "(f32[8])"},
           {"m!~ m -> m", "(f32[8, 4])"},
       }) {
    EXPECT_THROW(sized(text, call), InternalError) << text;
  }
}

std::string reshaped(const Dims& from, const Dims& to) {
  return print(reshape_rule(from, to));
}

TEST(Reshape, SplitsAndMerges) {
  EXPECT_EQ(reshaped({8, 12}, {8, 4, 3}), "d0=8 (d1=4 d2=3) -> d0 d1 d2");
  EXPECT_EQ(reshaped({4, 8, 4}, {32, 4}), "d0=4 d1=8 d2=4 -> (d0 d1) d2");
  EXPECT_EQ(reshaped({6, 4}, {3, 8}), "(d0=3 d1=2) d2=4 -> d0 (d1 d2)");
}

TEST(Reshape, SharesTheCommonFactor) {
  EXPECT_EQ(reshaped({6, 4}, {4, 6}), "(d0=2 d1=3!) d4=4! -> (d0 d2=2!) d3=6!");
}

TEST(Reshape, SkipsDimsOfOne) {
  EXPECT_EQ(reshaped({1, 8, 1}, {8}), "1 d0=8 1 -> d0");
  EXPECT_EQ(reshaped({1}, {}), "1 -> ()");
}

TEST(Reshape, LeavesEmptyTensorsWhole) {
  EXPECT_EQ(reshaped({0, 4}, {4, 0}), "1 1 -> _");
}

TEST(Reshape, WorksOutMinusOne) {
  EXPECT_EQ(resolve_sizes({4, 6}, {-1, 3}), (Dims{8, 3}));
}

}  // namespace
}  // namespace weft
