// SPDX-License-Identifier: Apache-2.0
#include "train/batch_difference.h"

#include "train/batch_hash.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>

#include <gtest/gtest.h>

namespace weft {
namespace {

ToldBatch told(const std::string& type, uint64_t hash, bool is_split = false) {
  ToldBatch batch;
  batch.step = "a training step";
  batch.entries.push_back({"x", parse_type(type), hash, is_split, false});
  return batch;
}

TEST(BatchDifference, SaysWhichRanksDiffer) {
  ToldByRanks ranks;
  ranks.names = {"rank 0", "rank 1", "rank 2"};
  ranks.part_of_rank = {0, 0, 0};
  ranks.batches = {
      told("f32[4, 2]", 1), told("f32[4, 2]", 1), told("f32[4, 2]", 1)};
  EXPECT_EQ(batch_difference(ranks), "");
  ranks.batches[2] = told("f32[3, 2]", 2);
  EXPECT_NE(
      batch_difference(ranks).find(
          "x is f32[4, 2] on rank 0 and f32[3, 2] on rank 2"),
      std::string::npos);
  ranks.batches[2] = told("f32[4, 2]", 2);
  EXPECT_NE(
      batch_difference(ranks).find(
          "the values of x on rank 2 are not those on rank 0"),
      std::string::npos);
  ranks.is_example = true;
  EXPECT_EQ(batch_difference(ranks), "");
}

TEST(BatchDifference, ComparesRowsOnlyWithinAPart) {
  ToldByRanks ranks;
  ranks.names = {"rank 0", "rank 1", "rank 2"};
  ranks.part_of_rank = {0, 0, 1};
  ranks.is_local = true;
  ranks.batches = {
      told("f32[4, 2]", 1, true),
      told("f32[4, 2]", 1, true),
      told("f32[3, 2]", 2, true)};
  EXPECT_EQ(batch_difference(ranks), "");
  ranks.batches[1] = told("f32[4, 2]", 3, true);
  EXPECT_NE(
      batch_difference(ranks).find("rank=trainer.data_rank"),
      std::string::npos);
}

TEST(BatchDifference, WhatRanksTellIsReadAsItWas) {
  const ToldBatch batch = told("i64[4, 2]", ~uint64_t{0}, true);
  const ToldBatch read = parse_told_batch(print_json(batch));
  EXPECT_EQ(read.step, batch.step);
  EXPECT_EQ(read.entries.front().type, batch.entries.front().type);
  EXPECT_EQ(read.entries.front().hash, batch.entries.front().hash);
  EXPECT_TRUE(read.entries.front().is_split);
}

TEST(BatchHash, IsOfTheValuesAndNotOfHowTheyLie) {
  const at::Tensor rows = at::arange(600, at::kFloat).view({20, 30});
  const at::Tensor columns = rows.t().contiguous().t();
  EXPECT_EQ(hash_of(rows), hash_of(columns));
  EXPECT_EQ(sample_hash(rows), sample_hash(columns));
  EXPECT_NE(hash_of(rows), hash_of(rows.view({30, 20})));
  EXPECT_NE(sample_hash(rows), sample_hash(rows.add(1)));
  const at::Tensor other = rows.clone();
  other.select(0, 3).select(0, 4).fill_(-1);
  EXPECT_NE(hash_of(rows), hash_of(other));
  const at::Tensor turned = at::complex(rows, rows.add(1));
  EXPECT_NE(hash_of(turned), hash_of(turned.conj()));
}

}  // namespace
}  // namespace weft
