// SPDX-License-Identifier: Apache-2.0
#include "train/state_store.h"

#include "execute/allocation_watch.h"
#include "execute/initialise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <gtest/gtest.h>
#include <utility>

namespace weft {
namespace {

constexpr int64_t kRanks = 4;
// Of the largest parameter.
constexpr int64_t kLargestBytes = int64_t{4} * 1536 * 1024;
// Of the blocks in which pieces are made, with what their chain holds at once.
constexpr int64_t kBlocksBytes = int64_t{4} << 20;

// Parameters made in every way: drawn, scaled, filled, drawn in f64, joined of
// two (which cannot be made in pieces).
const char* const kText = R"(graph @g
func @init {
init:
  %e = aten.empty.memory_format([1536, 1024]) : f32[1536, 1024]
  %a = aten.uniform(%e, -1.0, 1.0, rng=0) : f32[1536, 1024] overwrites(%e)
  %e1 = aten.empty.memory_format([1536, 1024]) : f32[1536, 1024]
  %n = aten.normal_functional(%e1, 0.0, 0.5, rng=1) : f32[1536, 1024]
  %b = aten.mul.Scalar(%n, 0.25) : f32[1536, 1024]
  %e2 = aten.empty.memory_format([1536, 1024]) : f32[1536, 1024]
  %c = weft.trunc_normal(%e2, 0.0, 0.02, -2.0, 2.0, rng=2) : f32[1536, 1024]
  %e3 = aten.empty.memory_format([1536, 1024]) : f32[1536, 1024]
  %d = aten.fill.Scalar(%e3, 1.0) : f32[1536, 1024]
  %e4 = aten.empty.memory_format([7, 6]) : f32[7, 6]
  %h = aten.normal_functional(%e4, rng=3) : f32[7, 6]
  %f = aten.cat([%h, %h]) : f32[14, 6]
  %k = aten.randn([7], rng=4) : f32[7]
  return parameter "a" = %a
  return parameter "b" = %b
  return parameter "c" = %c
  return parameter "d" = %d
  return parameter "f" = %f
  return buffer "k" = %k
}
func @step {
  input %x : f32[4] = batch "0"
  input %a : f32[1536, 1024] = parameter "a"
  input %b : f32[1536, 1024] = parameter "b"
  input %c : f32[1536, 1024] = parameter "c"
  input %d : f32[1536, 1024] = parameter "d"
  input %f : f32[14, 6] = parameter "f"
  input %k : f32[7] = buffer "k"
forward:
  %sum = aten.sum(%x) : f32[]
  return loss = %sum
}
)";

const char* const kSplit = R"(plan @g on <x=2, y=2> {
  %a [x*y, -]
  %b [y, x]
  %c [(3 x), y]
  %d [x, -]
  %f [y, x]
  %k [x*y]
})";

class Start : public testing::Test {
 protected:
  Trainer trainer(const char* plan, int64_t rank) const {
    TrainerOptions options;
    options.rank = rank;
    options.ranks = 1;
    options.seed = 7;
    options.bad_loss = BadLoss::GoOn;
    return Trainer(
        [this](const BatchTypes&, StepKind) { return graph_; },
        [plan](const Graph&) { return parse_plan(plan, "plan"); },
        options,
        nullptr);
  }

  const Graph graph_ = parse_graph(kText, "t");
};

TEST_F(Start, PiecesAreThoseOfTheWhole) {
  const std::vector<at::Tensor> whole = initialise(graph_, 7);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    Trainer mine = trainer(kSplit, rank);
    mine.prepare(batch_types(graph_), StepKind::Train);
    initialise_parameters(mine, graph_);
    ASSERT_EQ(mine.residents().size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      const Trainer::Resident& each = mine.residents()[i];
      EXPECT_TRUE(each.tensor.equal(
          piece_of_tensor(whole[i], each.layout, mine.team(), rank)))
          << each.input.keys.front() << " of rank " << rank;
    }
  }
}

TEST_F(Start, HoldsItsShareAndOneTensorAtMost) {
  for (const char* plan : {kSplit, "plan @g on <x=2, y=2> {}"}) {
    Trainer mine = trainer(plan, 1);
    mine.prepare(batch_types(graph_), StepKind::Train);
    const AllocationWatch watch;
    initialise_parameters(mine, graph_);
    // Residents are in the arena, which is not counted.
    EXPECT_LE(watch.peak_bytes(), kBlocksBytes) << plan;
    EXPECT_LT(kBlocksBytes, kLargestBytes);
  }
}

}  // namespace
}  // namespace weft
