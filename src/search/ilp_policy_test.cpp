// SPDX-License-Identifier: Apache-2.0
#include "search/ilp_policy.h"

#include "base/error.h"
#include "lower/lower.h"
#include "program/live_bytes.h"
#include "search/rotor_policy.h"
#include "search/test_step.h"
#include "simulate/simulate.h"

#include <gtest/gtest.h>
#include <optional>

namespace weft {
namespace {

struct Outcome {
  double again_seconds = 0;
  int64_t peak_bytes = 0;
};

Outcome outcome(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  const Program program = lower(graph, plan);
  Outcome out = {
      .again_seconds = summarize(program, cluster).times.recompute_seconds,
      .peak_bytes = peak_bytes(program)};
  return out;
}

void by_ilp(
    Plan& plan,
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget) {
  EXPECT_TRUE(set_recompute_by_ilp(plan, graph, words, cluster, budget));
}

using Policy =
    void (*)(Plan&, const Graph&, const Parallel&, const Cluster&, int64_t);

std::optional<Outcome> with_policy(
    Policy policy,
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget) {
  Plan plan = expand(words, graph, cluster.device);
  try {
    policy(plan, graph, words, cluster, budget);
  } catch (const UserError&) {
    return std::nullopt;
  }
  return outcome(graph, plan, cluster);
}

// Budgets from all that is kept down to where nothing fits.
void compare_with_rotor(const Graph& graph, const std::string& text) {
  const Cluster cluster = test_cluster(2, 1e9, 1e9);
  const Parallel words = parse_parallel(text, "test");
  Plan plan = expand(words, graph, cluster.device);
  plan.recompute.clear();
  plan.recompute_cheap = false;
  const int64_t all = outcome(graph, plan, cluster).peak_bytes;
  int found = 0;
  int better = 0;
  for (int64_t percent = 98; percent >= 50; percent -= 4) {
    const int64_t budget = all * percent / 100;
    const auto theirs =
        with_policy(set_recompute_by_rotor, graph, words, cluster, budget);
    const auto ours = with_policy(by_ilp, graph, words, cluster, budget);
    if (ours) {
      EXPECT_LE(ours->peak_bytes, budget) << percent;
    }
    if (theirs) {
      ASSERT_TRUE(ours.has_value()) << percent;
      EXPECT_LE(ours->again_seconds, theirs->again_seconds * (1 + 1e-9))
          << percent;
      ++found;
    }
    better += ours && (!theirs || ours->again_seconds < theirs->again_seconds)
                  ? 1
                  : 0;
  }
  EXPECT_GE(found, 3);
  EXPECT_GE(better, 3);
}

TEST(IlpPolicy, IsNeverWorseThanRotorForEqualLayers) {
  compare_with_rotor(chain_step(5, 512, 64, 256), "data=1");
}

TEST(IlpPolicy, IsNeverWorseThanRotorForUnequalLayers) {
  compare_with_rotor(chain_step({256, 64, 512, 128, 64}, 512, 64), "data=1");
}

TEST(IlpPolicy, IsNeverWorseThanRotorOnTwoRanks) {
  compare_with_rotor(chain_step(4, 512, 64, 256), "data=2");
  compare_with_rotor(chain_step(4, 512, 64, 256), "tensor=2");
}

TEST(IlpPolicy, KeepsAllWhereThatFits) {
  const Graph graph = chain_step(3, 64, 16, 32);
  const Cluster cluster = test_cluster(1, 1e9, 1e9);
  Plan plan = expand({}, graph, cluster.device);
  set_recompute_by_ilp(plan, graph, {}, cluster, int64_t{1} << 40);
  EXPECT_TRUE(plan.recompute.empty());
  EXPECT_FALSE(plan.recompute_cheap);
}

std::string refusal(const std::string& text, const Graph& graph) {
  const Cluster cluster = test_cluster(2, 1e9, 1e9);
  const Parallel words = parse_parallel(text, "test");
  Plan plan = expand(words, graph, cluster.device);
  try {
    set_recompute_by_ilp(plan, graph, words, cluster, 1000);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(IlpPolicy, RefusesLargeStepsAndPipelines) {
  EXPECT_EQ(
      refusal("data=1", chain_step(40, 64, 16, 32)),
      "--recompute ilp chooses among up to 64 values that backward reads, and "
      "this step has 120: take --recompute rotor, which chooses among layers");
  EXPECT_EQ(
      refusal("pipeline=2", chain_step(4, 64, 16, 32)),
      "--recompute ilp is for one stage; with a pipeline let the search "
      "choose");
}

}  // namespace
}  // namespace weft
