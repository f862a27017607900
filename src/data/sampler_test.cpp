// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.h"

#include "checkpoint/test_folder.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

namespace weft {
namespace {

std::vector<int64_t> epoch_of(
    const Sampler& sampler, int64_t position, int64_t count, int64_t batches) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = sampler.batch(position, count);
    all.insert(all.end(), batch.samples.begin(), batch.samples.end());
    position = batch.next_position;
  }
  return all;
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> range(int64_t first, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Permuted, IsAPermutation) {
  for (int64_t size = 1; size < 300; ++size) {
    std::vector<int64_t> images;
    for (int64_t i = 0; i < size; ++i) {
      images.push_back(permuted(i, size, 17));
    }
    ASSERT_EQ(sorted(images), range(0, size));
  }
}

// Where each sample lands is about even over keys: chi-squared with 63 degrees
// of freedom is below 115 but once in ten thousand.
TEST(Permuted, IsEven) {
  constexpr int64_t kSize = 64;
  constexpr int64_t kKeys = 6400;
  for (const int64_t index : {0, 1, 31, 63}) {
    std::vector<int64_t> counts(kSize);
    for (uint64_t key = 0; key < kKeys; ++key) {
      ++counts[static_cast<size_t>(permuted(index, kSize, key))];
    }
    const double expected = double{kKeys} / double{kSize};
    double chi_squared = 0;
    for (const int64_t count : counts) {
      const double off = static_cast<double>(count) - expected;
      chi_squared += off * off / expected;
    }
    EXPECT_LT(chi_squared, 115) << index;
    EXPECT_GT(chi_squared, 20) << index;
  }
}

TEST(Permuted, TakesLargeSizes) {
  const int64_t size = int64_t{1} << 62;
  const int64_t image = permuted(5, size, 1);
  EXPECT_GE(image, 0);
  EXPECT_LT(image, size);
  EXPECT_NE(image, permuted(6, size, 1));
}

TEST(Sampler, EveryEpochHasEverySampleOnce) {
  const Sampler sampler({100, 10}, {.seed = 3});
  const auto first = epoch_of(sampler, 0, 5, 2);
  const auto second = epoch_of(sampler, 10, 5, 2);
  EXPECT_EQ(sorted(first), range(100, 10));
  EXPECT_EQ(sorted(second), range(100, 10));
  EXPECT_NE(first, second);
  EXPECT_NE(first, epoch_of(Sampler({100, 10}, {.seed = 4}), 0, 5, 2));
}

TEST(Sampler, PositionAloneRestores) {
  const Sampler sampler({0, 23}, {.seed = 3});
  const auto all = epoch_of(sampler, 0, 4, 12);
  int64_t position = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const Batch batch = Sampler({0, 23}, {.seed = 3}).batch(position, 4);
    EXPECT_TRUE(std::equal(
        batch.samples.begin(), batch.samples.end(), all.begin() + i * 4));
    position = batch.next_position;
  }
}

TEST(Sampler, OrderDoesNotDependOnTheSizeOfBatches) {
  const Sampler sampler({0, 12}, {.seed = 3});
  const auto whole = epoch_of(sampler, 0, 12, 1);
  EXPECT_EQ(epoch_of(sampler, 0, 3, 4), whole);
  EXPECT_EQ(epoch_of(sampler, 0, 2, 6), whole);
}

TEST(Sampler, LastBatch) {
  const Sampler drops({0, 10}, {.shuffle = false});
  EXPECT_EQ(drops.batches_per_epoch(4), 2);
  EXPECT_EQ(drops.batch(4, 4).next_position, 8);
  const Batch next = drops.batch(8, 4);
  EXPECT_EQ(next.samples, range(0, 4));
  EXPECT_EQ(next.epoch, 1);
  EXPECT_EQ(next.next_position, 14);

  const Sampler keeps({0, 10}, {.shuffle = false, .drop_last = false});
  EXPECT_EQ(keeps.batches_per_epoch(4), 3);
  const Batch last = keeps.batch(8, 4);
  EXPECT_EQ(last.samples, range(8, 2));
  EXPECT_EQ(last.epoch, 0);
  EXPECT_EQ(last.next_position, 10);
}

TEST(Sampler, BatchLargerThanTheData) {
  EXPECT_TRUE(contains(
      user_error([] { Sampler({0, 3}, {}).batch(0, 4); }),
      "a batch takes 4 samples and there are 3"));
  EXPECT_EQ(
      Sampler({0, 3}, {.drop_last = false}).batch(0, 4).samples.size(), 3U);
}

TEST(Split, HoldsOutTheLast) {
  const DataSplit parts = split(100, 0.1);
  EXPECT_EQ(parts.training, (SampleRange{0, 90}));
  EXPECT_EQ(parts.evaluation, (SampleRange{90, 10}));
  EXPECT_EQ(split(100, 0).evaluation.count, 0);
  EXPECT_EQ(split(100, 0.001).evaluation.count, 1);
  EXPECT_TRUE(
      contains(user_error([] { split(100, 1); }), "a number from 0 up to"));
  EXPECT_TRUE(contains(
      user_error([] { split(1, 0.5); }), "nothing is left to train on"));
}

}  // namespace
}  // namespace weft
