// SPDX-License-Identifier: Apache-2.0
#include "train/batch_rows.h"

#include "base/text.h"
#include "plan/batch_share.h"
#include "plan/parallel.h"

#include <ATen/ops/zeros.h>

#include <gtest/gtest.h>
#include <numeric>

namespace weft {
namespace {

const char* const kRows = R"(graph @g

func @step {
  input %x : f32[ROWS, 32] = batch "x"
  input %mask : f32[32] = batch "mask"
  input %w : f32[32, 64] = parameter "w" trained
forward:
  %masked = aten.mul(%x, %mask) : f32[ROWS, 32]
  %y = aten.mm(%masked, %w) : f32[ROWS, 64]
  %loss = aten.sum(%y) : f32[]
  return loss = %loss
}
)";

Graph graph_of(int64_t rows) {
  std::string text = kRows;
  for (size_t at = text.find("ROWS"); at != std::string::npos;
       at = text.find("ROWS")) {
    text.replace(at, 4, cat(rows));
  }
  return parse_graph(text, "t");
}

AgreedBatch parts_of(
    const std::vector<int64_t>& rows, std::vector<int64_t> part_of_rank) {
  AgreedBatch batch;
  batch.starts = {0};
  for (const int64_t each : rows) {
    batch.starts.push_back(batch.starts.back() + each);
  }
  batch.is_split = {true, false};
  batch.part_of_rank = std::move(part_of_rank);
  batch.given = {{"x", at::zeros({rows[0], 32})}, {"mask", at::zeros({32})}};
  return batch;
}

std::vector<RowTransfer> transfers(
    const std::string& words, const std::vector<int64_t>& rows) {
  const Graph graph =
      graph_of(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  const Plan plan = expand(parse_parallel(words, "t"), graph);
  return row_transfers(
      lower(graph, plan),
      parts_of(rows, batch_share(plan, graph).part_of_rank));
}

TEST(BatchRows, NothingTravelsWhereThePlanCutsTheBatchAsTheRanksDo) {
  for (const char* words :
       {"data=2", "data=2,zero=3", "data=2,micro-batches=2"}) {
    EXPECT_TRUE(transfers(words, {4, 4}).empty()) << words;
    EXPECT_TRUE(transfers(words, {5, 4}).empty()) << words;
  }
  EXPECT_TRUE(transfers("data=4", {3, 3, 3, 3}).empty());
  EXPECT_TRUE(transfers("data=4,shard=2,zero=3", {3, 2, 3, 2}).empty());
}

TEST(BatchRows, OnlyTheRowsTravelThatAnotherRankWorksOn) {
  const RowTransfer one = {"x", 1, 0, 4, 1};
  EXPECT_EQ(transfers("data=2", {4, 5}), std::vector<RowTransfer>{one});
  const RowTransfer many = {"x", 0, 1, 4, 2};
  EXPECT_EQ(transfers("data=2", {6, 1}), std::vector<RowTransfer>{many});
}

TEST(BatchRows, ABatchThatThePlanLeavesWholeComesFromAll) {
  // Fewer rows than ranks.
  const std::vector<RowTransfer> expected = {
      {"x", 1, 0, 0, 1}, {"x", 1, 2, 0, 1}, {"x", 1, 3, 0, 1}};
  const Graph graph = graph_of(1);
  const Plan plan = expand(parse_parallel("data=4", "t"), graph);
  EXPECT_EQ(
      row_transfers(lower(graph, plan), parts_of({0, 1, 0, 0}, {0, 1, 2, 3})),
      expected);
}

TEST(BatchShare, IsByTheAxesThatSplitTheRows) {
  const Graph graph = graph_of(8);
  const auto parts = [&](const std::string& mesh) {
    const Plan plan = parse_plan(
        cat("plan @g on ", mesh, " in <micro=2> {\n  %x [data*micro, -]\n}\n"),
        "t");
    return batch_share(plan, graph).part_of_rank;
  };
  using Parts = std::vector<int64_t>;
  EXPECT_EQ(parts("<data=2>"), Parts({0, 1}));
  EXPECT_EQ(parts("<data=2, tensor=2>"), Parts({0, 0, 1, 1}));
  EXPECT_EQ(parts("<tensor=2, data=2>"), Parts({0, 1, 0, 1}));
}

}  // namespace
}  // namespace weft
