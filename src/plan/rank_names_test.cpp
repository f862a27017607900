// SPDX-License-Identifier: Apache-2.0
#include "plan/rank_names.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::vector<std::string> names_of(const std::string& text) {
  return rank_names(parse_plan(text, "p"));
}

TEST(RankNames, AreThoseOfTheirStages) {
  EXPECT_TRUE(names_of("plan @g on <data=4> { }").empty());
  EXPECT_EQ(
      names_of("plan @g on <pipeline=2, data=2> { stage %a }"),
      std::vector<std::string>(
          {"stage 0 (rank 0)",
           "stage 0 (rank 1)",
           "stage 1 (rank 2)",
           "stage 1 (rank 3)"}));
  EXPECT_EQ(
      names_of("plan @g on <pipeline=2> { schedule zb-v stage %a stage %b "
               "stage %c }"),
      std::vector<std::string>(
          {"stages 0 and 3 (rank 0)", "stages 1 and 2 (rank 1)"}));
  EXPECT_EQ(
      names_of("plan @g on <data=2, pipeline=2> { schedule @mine { stages 4 "
               "micro_batches 1 0: F0 F0@2 F0@3 B0@3 B0@2 B0 1: F0 B0 } "
               "stage %a stage %b stage %c }"),
      std::vector<std::string>(
          {"stages 0, 2 and 3 (rank 0)",
           "stage 1 (rank 1)",
           "stages 0, 2 and 3 (rank 2)",
           "stage 1 (rank 3)"}));
}

TEST(RankNames, AreKnownFromWords) {
  const auto names = [](const std::string& words) {
    return rank_names(parse_parallel(words, "p"));
  };
  EXPECT_TRUE(names("data=2,micro-batches=2").empty());
  EXPECT_EQ(names("pipeline=2,tensor=2,data=2")[5], "stage 1 (rank 5)");
  EXPECT_EQ(
      names("pipeline=2,schedule=interleaved,stages=6,micro-batches=2")[1],
      "stages 1, 3 and 5 (rank 1)");
  EXPECT_EQ(names("pipeline=2,schedule=zb-v")[0], "stages 0 and 3 (rank 0)");
}

}  // namespace
}  // namespace weft
