// SPDX-License-Identifier: Apache-2.0
#include "search/samples.h"

#include "base/error.h"
#include "search/test_step.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

void expect_equal(const UnitCost& a, const UnitCost& b) {
  EXPECT_DOUBLE_EQ(a.forward_seconds, b.forward_seconds);
  EXPECT_DOUBLE_EQ(a.backward_seconds, b.backward_seconds);
  EXPECT_DOUBLE_EQ(a.again_seconds, b.again_seconds);
  EXPECT_DOUBLE_EQ(a.transfer_seconds, b.transfer_seconds);
  EXPECT_DOUBLE_EQ(a.update_seconds, b.update_seconds);
  EXPECT_EQ(a.kept_bytes, b.kept_bytes);
  EXPECT_EQ(a.temporary_bytes, b.temporary_bytes);
  EXPECT_EQ(a.output_bytes, b.output_bytes);
  EXPECT_EQ(a.parameter_bytes, b.parameter_bytes);
  EXPECT_EQ(a.gradient_bytes, b.gradient_bytes);
  EXPECT_EQ(a.state_bytes, b.state_bytes);
  EXPECT_EQ(a.summed_bytes, b.summed_bytes);
  EXPECT_EQ(a.given_bytes, b.given_bytes);
}

// Whatever the size of a micro-batch, what is made from two programs costs what
// lowering says; and few are lowered.
TEST(Samples, CostWhatLoweringSays) {
  const Graph graph = chain_step({64, 128, 64}, 96, 32);
  const StepUnits units = step_units(step_of(graph));
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  for (const int64_t tensor : {1, 2}) {
    for (const RecomputePolicy policy :
         {RecomputePolicy::None, RecomputePolicy::Full}) {
      Samples samples(graph, units, cluster);
      for (const int64_t parts : {96, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1}) {
        const SampleKey key = {
            .batch_parts = parts, .tensor = tensor, .recompute = policy};
        const auto exact = sample_costs(graph, units, key, cluster);
        const auto made = samples.costs(key);
        ASSERT_EQ(exact.size(), made.size());
        for (size_t i = 0; i < exact.size(); ++i) {
          SCOPED_TRACE(cat(parts, " parts, tensor=", tensor, ", unit ", i));
          expect_equal(exact[i], made[i]);
        }
      }
      // Five of twelve for each of four policies.
      EXPECT_LE(samples.lowered(), 20);
      // And before anything is made again, once for all policies.
      EXPECT_LE(samples.laid_out(), 5);
    }
  }
}

// What is expected is lowered along with what is asked for, and changes nothing
// of what that costs.
TEST(Samples, LowerWhatIsExpectedAtTheSameTime) {
  const Graph graph = chain_step(2, 64, 32, 64);
  const StepUnits units = step_units(step_of(graph));
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  const SampleKey key = {
      .batch_parts = 16, .tensor = 2, .recompute = RecomputePolicy::None};
  SampleKey split = key;
  split.sequence = true;
  Samples alone(graph, units, cluster);
  const auto exact = alone.costs(key);
  Samples both(graph, units, cluster);
  both.expect(split);
  const auto costs = both.costs(key);
  ASSERT_EQ(exact.size(), costs.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    expect_equal(exact[i], costs[i]);
  }
  EXPECT_EQ(both.lowered(), 2 * alone.lowered());
}

// Each parameter has one gradient, though forward reads views of it.
TEST(Samples, CountAGradientForEachParameter) {
  const Graph graph = chain_step(2, 64, 32, 64);
  const StepUnits units = step_units(step_of(graph));
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  for (const int64_t parts : {1, 4}) {
    const auto costs =
        sample_costs(graph, units, {.batch_parts = parts}, cluster);
    for (size_t i = 0; i < 2; ++i) {
      SCOPED_TRACE(cat(parts, " parts, unit ", i));
      EXPECT_EQ(costs[i].gradient_bytes, 4 * 2 * 32 * 64);
      EXPECT_EQ(costs[i].summed_bytes, parts > 1 ? 4 * 2 * 32 * 64 : 0);
      EXPECT_EQ(costs[i].given_bytes, 0);
    }
  }
}

// With few rows it is less to send these than sums of gradients, and the
// gradients are made once from the rows of all micro-batches.
TEST(Samples, SendRowsWhereTheseAreFewer) {
  const Graph graph = chain_step(2, 4, 32, 64);
  const StepUnits units = step_units(step_of(graph));
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  const auto costs = sample_costs(graph, units, {.batch_parts = 4}, cluster);
  int64_t given_bytes = 0;
  for (const UnitCost& cost : costs) {
    EXPECT_EQ(cost.summed_bytes, 0);
    given_bytes += cost.given_bytes;
  }
  EXPECT_EQ(given_bytes, 4 * 2 * 2 * (32 + 64));
  EXPECT_GT(costs.front().update_seconds, costs.front().forward_seconds);
}

TEST(Samples, SayWhyThereIsNone) {
  const Graph graph = chain_step(2, 8, 32, 64);
  const StepUnits units = step_units(step_of(graph));
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  Samples samples(graph, units, cluster);
  const SampleKey key = {.batch_parts = 4, .tensor = 1000};
  for (int i = 0; i < 2; ++i) {
    try {
      samples.costs(key);
      FAIL() << "no product divides so";
    } catch (const UserError& error) {
      EXPECT_NE(
          std::string(error.what()).find("tensor=1000 fits no product"),
          std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
