// SPDX-License-Identifier: Apache-2.0
#include "program/holding.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// Two stages of two ranks: each has one parameter, split or whole, and all
// return the loss.
constexpr const char* kProgram = R"(program @g on <pipeline=2, data=2>

block @step.0 ranks 0 to 1 {
  input %a : f32[2, 8] = parameter "a" at [data, -]
forward:
  %loss = aten.sum(%a) : f32[] at []
  return loss = %loss
  return parameter "a" = %a
}

block @step.1 ranks 2 to 3 {
  input %b : f32[3] = parameter "b" at [-]
forward:
  %loss = aten.sum(%b) : f32[] at []
  return loss = %loss
  return parameter "b" = %b
}
)";

TEST(Holding, OutputsAreListedOnceWithTheirRanks) {
  const Program program = parse_program(kProgram, "p");
  const std::vector<HeldOutput> all = held_outputs(program);
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].kind, OutputKind::Loss);
  EXPECT_EQ(all[0].holding.ranks, std::vector<int64_t>({0, 1, 2, 3}));
  EXPECT_TRUE(is_everywhere(all[0].holding));
  EXPECT_EQ(all[1].key, "a");
  EXPECT_EQ(print(all[1].holding.whole), "f32[4, 8]");
  EXPECT_EQ(all[1].holding.ranks, std::vector<int64_t>({0, 1}));
  EXPECT_EQ(all[2].key, "b");
  EXPECT_EQ(print(all[2].holding.whole), "f32[3]");
  EXPECT_EQ(all[2].holding.ranks, std::vector<int64_t>({2, 3}));
  // Whole, but not on every rank.
  EXPECT_FALSE(is_everywhere(all[2].holding));
}

TEST(Holding, ATeamHasAllPieces) {
  const Program program = parse_program(
      R"(program @g on <data=2>, <>

block @step.0 ranks 0 to 1 {
  input %a : f32[2, 8] = parameter "a" at [data, -]
  return parameter "a" = %a
}

block @step.2 ranks 2 to 2 {
  input %a : f32[4, 8] = batch "0" at [-, -]
  return parameter "a" = %a
}
)",
      "p");
  const std::vector<HeldOutput> all = held_outputs(program);
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].holding.team, team_of(program, 0));
  EXPECT_EQ(all[0].holding.ranks, std::vector<int64_t>({0, 1}));
  EXPECT_EQ(print(all[0].holding.whole), "f32[4, 8]");
  EXPECT_FALSE(is_everywhere(all[0].holding));
}

}  // namespace
}  // namespace weft
