// SPDX-License-Identifier: Apache-2.0
#include "search/estimate.h"

#include "base/text.h"
#include "lower/lower.h"
#include "program/live_bytes.h"
#include "search/search.h"
#include "search/test_step.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr int64_t kAnyBytes = int64_t{1} << 40;

// What a candidate needs by its estimate, of what lowering finds.
double times_lowered(
    const Graph& graph,
    const Cluster& cluster,
    Estimator& estimator,
    const Candidate& candidate) {
  const Estimate estimate = estimator.estimate(candidate, kAnyBytes);
  EXPECT_EQ(estimate.reason, "");
  LowerOptions quick;
  quick.verify_each = false;
  const Plan plan =
      plan_of(graph, estimator.units(), candidate, estimate, cluster.device);
  return static_cast<double>(total(estimate.memory)) /
         static_cast<double>(peak_bytes(lower(graph, plan, cluster, quick)));
}

// Where parameters are large beside what lowering sends at once, estimates of
// memory are near what lowering finds, whatever ranks share.
TEST(Estimate, MemoryIsWhatLoweringFinds) {
  const Graph graph = chain_step(6, 256, 1024, 1024);
  const Cluster cluster = test_cluster(2, 1e9, 1e8);
  Estimator estimator(graph, cluster);
  for (const Candidate& candidate : candidates(2, 2, 256, {})) {
    const Parallel& words = candidate.words;
    if ((words.micro_batches != 1 && words.micro_batches != 4) ||
        (words.pipeline > 1 && words.schedule == "interleaved") ||
        words.sequence) {
      continue;
    }
    const double times = times_lowered(graph, cluster, estimator, candidate);
    EXPECT_GT(times, 0.88) << print(candidate);
    EXPECT_LT(times, 1.25) << print(candidate);
  }
}

// Where activations are large beside parameters. What schedules with units for
// weights let wait is kept whatever the policy.
TEST(Estimate, MemoryOfSchedulesIsWhatLoweringFinds) {
#ifdef __SANITIZE_ADDRESS__
  // Sanitizers look for mistakes with memory, which one of them shows.
  constexpr std::array<int64_t, 1> kPipelines = {4};
  const Graph graph = chain_step(16, 2048, 128, 128);
#else
  constexpr std::array<int64_t, 2> kPipelines = {4, 8};
  const Graph graph = chain_step(32, 2048, 128, 128);
#endif
  const Cluster cluster = test_cluster(8, 1e9, 1e8);
  Estimator estimator(graph, cluster);
  Candidate candidate;
  candidate.may_mix = false;
  for (const char* schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"}) {
    for (const int64_t pipeline : kPipelines) {
      for (const RecomputePolicy policy : kRecomputePolicies) {
        candidate.recompute = policy;
        candidate.words.pipeline = pipeline;
        candidate.words.data = 8 / pipeline;
        candidate.words.micro_batches = 2 * pipeline;
        candidate.words.schedule = schedule;
        const double times =
            times_lowered(graph, cluster, estimator, candidate);
        EXPECT_GT(times, 0.95) << print(candidate);
        EXPECT_LT(times, 1.1) << print(candidate);
      }
    }
  }
}

// What does not fit needs room for all stages that a position has.
TEST(Estimate, CountsEveryStageOfAPosition) {
  const Graph graph = chain_step(12, 64, 256, 256);
  const Cluster cluster = test_cluster(2, 1e9, 1e8);
  Estimator estimator(graph, cluster);
  Candidate candidate;
  candidate.recompute = RecomputePolicy::None;
  candidate.may_mix = false;
  candidate.words.pipeline = 2;
  candidate.words.micro_batches = 4;
  candidate.words.schedule = "interleaved";
  for (const int64_t stages : {4, 6}) {
    candidate.words.stages = stages;
    const Estimate roomy = estimator.estimate(candidate, kAnyBytes);
    ASSERT_EQ(roomy.reason, "");
    EXPECT_EQ(roomy.stage_starts.size(), static_cast<size_t>(stages));
    const Estimate tight =
        estimator.estimate(candidate, total(roomy.memory) / 2);
    EXPECT_EQ(tight.reason.substr(0, 9), "position ") << tight.reason;
    EXPECT_GT(tight.needed_bytes, total(roomy.memory) * 9 / 10);
    EXPECT_LT(tight.needed_bytes, total(roomy.memory) * 5 / 4);
  }
}

// What is ruled out by the sample that all micro-batches and policies share
// would be by its own.
TEST(Estimate, BoundsAreNoMoreThanEstimates) {
  const Graph graph = chain_step(4, 64, 128, 256);
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  Estimator estimator(graph, cluster);
  int64_t bounded = 0;
  for (const Candidate& candidate : candidates(4, 4, 64, {})) {
    const Estimate estimate = estimator.estimate(candidate, kAnyBytes);
    if (!estimate.reason.empty()) {
      continue;
    }
    const double seconds = estimator.floor_seconds(candidate);
    EXPECT_LE(seconds, estimator.least_seconds(candidate) * (1 + 1e-9))
        << print(candidate);
    EXPECT_LE(seconds, estimate.step_seconds) << print(candidate);
    EXPECT_LE(estimator.floor_bytes(candidate), total(estimate.memory))
        << print(candidate);
    bounded += seconds > 0 && estimator.floor_bytes(candidate) > 0 ? 1 : 0;
  }
  EXPECT_GT(bounded, 100);
}

}  // namespace
}  // namespace weft
