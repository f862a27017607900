// SPDX-License-Identifier: Apache-2.0
#include "search/shrink.h"

#include "search/sample.h"
#include "search/test_step.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Units, AreLayersAndWhatFollows) {
  const Graph graph = chain_step(10, 16, 32, 64);
  const StepUnits units = step_units(step_of(graph));
  ASSERT_EQ(units.size(), 11);
  EXPECT_EQ(units.units[3].stage_pattern, "l.3/*");
  EXPECT_EQ(units.units[1].kind, units.units[8].kind);
  EXPECT_NE(units.units[10].kind, units.units[8].kind);
}

// A graph whose backward has no names of modules: where a node belongs follows
// from what it reads.
TEST(Units, TakeNamelessBackwardByWhatItReads) {
  const Graph graph = chain_step(6, 16, 32, 64);
  Graph nameless = graph;
  Function& step = nameless.functions.front();
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (step.nodes[i].phase == Phase::Backward) {
      step[step.nodes[i].results.front()].name = cat("value.", i);
    }
  }
  const StepUnits units = step_units(step);
  EXPECT_EQ(units.of_node, step_units(step_of(graph)).of_node);
  const ShrunkStep small = shrink(nameless, units);
  verify(small.graph);
  EXPECT_EQ(small.units.size(), 4);
}

TEST(Shrink, KeepsTheFirstTwoLayersAndTheLast) {
  const Graph graph = chain_step(10, 16, 32, 64);
  const StepUnits units = step_units(step_of(graph));
  const ShrunkStep small = shrink(graph, units);
  verify(small.graph);
  EXPECT_EQ(small.units.size(), 4);
  EXPECT_EQ(
      small.stands_for,
      (std::vector<int32_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}));
  EXPECT_EQ(
      step_of(small.graph).nodes.size(),
      step_of(chain_step(3, 16, 32, 64)).nodes.size());
}

TEST(Shrink, LeavesShortRuns) {
  const Graph graph = chain_step(3, 16, 32, 64);
  const ShrunkStep small = shrink(graph, step_units(step_of(graph)));
  EXPECT_EQ(step_of(small.graph).nodes.size(), step_of(graph).nodes.size());
}

// What the whole step costs, unit by unit.
TEST(Shrink, CostsWhatTheWholeCosts) {
  const Graph graph = chain_step(9, 16, 64, 128);
  const StepUnits units = step_units(step_of(graph));
  const ShrunkStep small = shrink(graph, units);
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  for (const RecomputePolicy policy :
       {RecomputePolicy::None, RecomputePolicy::Full}) {
    const SampleKey key = {.batch_parts = 2, .tensor = 2, .recompute = policy};
    const auto whole = sample_costs(graph, units, key, cluster);
    const auto few = sample_costs(small.graph, small.units, key, cluster);
    for (size_t i = 0; i < whole.size(); ++i) {
      const UnitCost& a = whole[i];
      const UnitCost& b = few[static_cast<size_t>(small.stands_for[i])];
      EXPECT_NEAR(a.forward_seconds, b.forward_seconds, 1e-9) << i;
      EXPECT_NEAR(a.backward_seconds, b.backward_seconds, 1e-9) << i;
      EXPECT_EQ(a.kept_bytes, b.kept_bytes) << i;
      EXPECT_EQ(a.parameter_bytes, b.parameter_bytes) << i;
      EXPECT_EQ(a.gradient_bytes, b.gradient_bytes) << i;
      EXPECT_EQ(a.output_bytes, b.output_bytes) << i;
    }
  }
}

}  // namespace
}  // namespace weft
