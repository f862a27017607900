// SPDX-License-Identifier: Apache-2.0
#include "search/estimate.h"

#include "base/text.h"
#include "lower/lower.h"
#include "program/live_bytes.h"
#include "search/search.h"
#include "search/test_step.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr int64_t kAnyBytes = int64_t{1} << 40;

int64_t lowered_bytes(
    const Graph& graph, const Cluster& cluster, const Plan& plan) {
  LowerOptions quick;
  quick.verify_each = false;
  return peak_bytes(lower(graph, plan, cluster, quick));
}

// Where parameters are large beside what lowering sends at once, estimates of
// memory are near what lowering finds, whatever ranks share. Not for zb-h1,
// which keeps for longer what is made again.
TEST(Estimate, MemoryIsWhatLoweringFinds) {
  const Graph graph = chain_step(6, 256, 1024, 1024);
  const Cluster cluster = test_cluster(2, 1e9, 1e8);
  const StepUnits units = step_units(step_of(graph));
  Estimator estimator(graph, cluster);
  for (const Candidate& candidate : candidates(2, 2, 256, {})) {
    const Parallel& words = candidate.words;
    if ((words.micro_batches != 1 && words.micro_batches != 4) ||
        (words.pipeline > 1 && words.schedule != "1f1b") || words.sequence) {
      continue;
    }
    const Estimate estimate = estimator.estimate(candidate, kAnyBytes);
    ASSERT_EQ(estimate.reason, "");
    const double times =
        static_cast<double>(total(estimate.memory)) /
        static_cast<double>(lowered_bytes(
            graph,
            cluster,
            plan_of(graph, units, candidate, estimate, cluster.device)));
    EXPECT_GT(times, 0.88) << print(candidate);
    EXPECT_LT(times, 1.25) << print(candidate);
  }
}

}  // namespace
}  // namespace weft
