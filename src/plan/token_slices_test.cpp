// SPDX-License-Identifier: Apache-2.0
#include "plan/token_slices.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

namespace weft {
namespace {

// All ways to write `length` as a sum, in order.
double least_of_all(
    const SliceCosts& costs,
    const SliceShape& shape,
    std::vector<int64_t>& lengths,
    int64_t left) {
  if (left == 0) {
    return pipeline_cost(costs, shape, lengths);
  }
  double least = std::numeric_limits<double>::infinity();
  for (int64_t length = 1; length <= left; ++length) {
    lengths.push_back(length);
    least = std::min(least, least_of_all(costs, shape, lengths, left - length));
    lengths.pop_back();
  }
  return least;
}

TEST(TokenSlices, AreTheBestOfAll) {
  const std::vector<SliceCosts> all = {
      {.slice = 0, .token = 1, .pair = 0},
      {.slice = 3, .token = 1, .pair = 0},
      {.slice = 0.5, .token = 1, .pair = 0.3},
      {.slice = 2, .token = 0.1, .pair = 1},
      {.slice = 1, .block = 0.4, .token = 1, .pair = 0.1},
      {.slice = 1, .block = 0.1, .block_token = 0.05, .token = 1},
      {.slice = 100, .token = 1, .pair = 0.1}};
  for (const SliceCosts& costs : all) {
    for (const int64_t stages : {1, 2, 4, 9}) {
      for (const int64_t micro_batches : {1, 3}) {
        const SliceShape shape = {13, stages, micro_batches};
        const std::vector<int64_t> found = best_slices(costs, shape);
        EXPECT_EQ(std::accumulate(found.begin(), found.end(), int64_t{0}), 13);
        std::vector<int64_t> none;
        EXPECT_DOUBLE_EQ(
            pipeline_cost(costs, shape, found),
            least_of_all(costs, shape, none, shape.length));
      }
    }
  }
}

TEST(TokenSlices, AreShorterWhereMoreIsSeen) {
  const std::vector<int64_t> lengths =
      best_slices({.slice = 20, .token = 1, .pair = 0.02}, {1024, 8, 1});
  ASSERT_GT(lengths.size(), 2U);
  // The last one is what is left.
  EXPECT_GT(lengths.front(), lengths[lengths.size() - 2]);
}

TEST(TokenSlices, AreFewerForMoreMicroBatches) {
  const SliceCosts costs = {.slice = 20, .token = 1, .pair = 0.01};
  EXPECT_GT(
      best_slices(costs, {1024, 8, 1}).size(),
      best_slices(costs, {1024, 8, 64}).size());
}

TEST(TokenSlices, AreFewerWhereEachCostsThoseAfterIt) {
  const SliceShape shape = {1024, 8, 1};
  EXPECT_GT(
      best_slices({.slice = 5, .token = 1}, shape).size(),
      best_slices({.slice = 5, .block = 5, .token = 1}, shape).size());
}

TEST(TokenSlices, OneStageHasOneSlice) {
  EXPECT_EQ(
      best_slices({.slice = 1, .token = 1, .pair = 1}, {100, 1, 1}),
      std::vector<int64_t>({100}));
}

}  // namespace
}  // namespace weft
