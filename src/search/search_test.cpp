// SPDX-License-Identifier: Apache-2.0
#include "search/search.h"

#include "base/error.h"
#include "lower/lower.h"
#include "program/live_bytes.h"
#include "search/estimate.h"
#include "search/test_step.h"
#include "simulate/simulate.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

namespace weft {
namespace {

struct Case {
  Graph graph;
  Cluster cluster;
};

Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::vector<double> from) {
    return from[random() % from.size()];
  };
  Case out;
  out.graph = chain_step(
      2 + static_cast<int64_t>(random() % 2),
      2 << random() % 2,
      16 << random() % 3,
      32 << random() % 3);
  out.cluster =
      test_cluster(2, one_of({1e8, 1e9, 1e10}), one_of({1e6, 1e7, 1e8, 1e9}));
  // Of what one rank takes that keeps everything.
  Plan alone;
  alone.graph = out.graph.name;
  const Program program = lower(out.graph, alone);
  out.cluster.device.memory_bytes = static_cast<int64_t>(
      one_of({0.3, 0.4, 0.5, 0.7, 1.5}) *
      static_cast<double>(peak_bytes(program.blocks.front())));
  return out;
}

// All ways to cut units into stages, as first units.
void each_cut(
    const StepUnits& units,
    int64_t stages,
    std::vector<int32_t> starts,
    std::vector<std::vector<int32_t>>& out) {
  if (static_cast<int64_t>(starts.size()) == stages) {
    out.push_back(starts);
    return;
  }
  for (int32_t i = starts.back() + 1; i < units.size(); ++i) {
    if (!units.units[static_cast<size_t>(i)].stage_pattern.empty()) {
      starts.push_back(i);
      each_cut(units, stages, starts, out);
      starts.pop_back();
    }
  }
}

// The least simulated time of all candidates, all cuts, that fit; -1: none.
double brute_force(const Case& one) {
  const StepUnits units = step_units(step_of(one.graph));
  double best = -1;
  for (const Candidate& candidate : candidates(
           device_count(one.cluster),
           device_count(one.cluster),
           batch_rows(one.graph),
           {})) {
    std::vector<std::vector<int32_t>> cuts;
    each_cut(units, stage_count(candidate.words), {0}, cuts);
    for (const std::vector<int32_t>& starts : cuts) {
      Estimate estimate;
      estimate.stage_starts = starts;
      estimate.recompute.assign(units.units.size(), candidate.recompute);
      try {
        const Plan plan =
            plan_of(one.graph, units, candidate, estimate, one.cluster.device);
        const Program program = lower(one.graph, plan, one.cluster);
        int64_t most = 0;
        for (const Block& block : program.blocks) {
          most = std::max(most, peak_bytes(block));
        }
        if (most > one.cluster.device.memory_bytes) {
          continue;
        }
        const double seconds = step_seconds(simulate(program, one.cluster));
        best = best < 0 ? seconds : std::min(best, seconds);
      } catch (const UserError&) {
        // A word that fits nothing.
      }
    }
  }
  return best;
}

// WEFT_SEARCH_CASES runs more of them.
int cases() {
  const char* wanted = std::getenv("WEFT_SEARCH_CASES");
  return wanted == nullptr ? 3 : std::atoi(wanted);
}

TEST(Search, FindsWhatBruteForceFinds) {
  int found = 0;
  int simulated = 0;
  for (int seed = 0; seed < cases(); ++seed) {
    const Case one = random_case(static_cast<uint32_t>(seed));
    const double expected = brute_force(one);
    const SearchResult result = search(one.graph, one.cluster, {});
    ASSERT_EQ(result.plan.has_value(), expected >= 0) << "case " << seed;
    if (result.plan) {
      ++found;
      simulated += static_cast<int>(result.simulated);
      const Tried& best = result.tried.front();
      EXPECT_LE(best.seconds(), 1.01 * expected)
          << "case " << seed << ": " << print(best.candidate);
      EXPECT_LE(best.bytes(), one.cluster.device.memory_bytes);
    }
  }
  std::cout << found << " cases with a plan, " << simulated
            << " candidates simulated\n";
}

TEST(Search, IsTheSameEveryTime) {
  const Case one = {chain_step(3, 4, 16, 32), test_cluster(2, 1e9, 1e7)};
  const SearchResult a = search(one.graph, one.cluster, {});
  const SearchResult b = search(one.graph, one.cluster, {});
  ASSERT_TRUE(a.plan.has_value());
  EXPECT_EQ(print(*a.plan), print(*b.plan));
  ASSERT_EQ(a.tried.size(), b.tried.size());
  for (size_t i = 0; i < a.tried.size(); ++i) {
    EXPECT_EQ(print(a.tried[i].candidate), print(b.tried[i].candidate));
    EXPECT_EQ(a.tried[i].reason, b.tried[i].reason);
  }
}

TEST(Search, KeepsToWhatIsFixedAndForbidden) {
  const Graph graph = chain_step(2, 4, 16, 32);
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  SearchOptions options;
  fix_word(options.limits, "tensor=2");
  forbid_word(options.limits, "pipeline");
  forbid_word(options.limits, "zero");
  const SearchResult result = search(graph, cluster, options);
  ASSERT_TRUE(result.plan.has_value());
  for (const Tried& tried : result.tried) {
    EXPECT_EQ(tried.candidate.words.tensor, std::vector<int64_t>{2});
    EXPECT_EQ(tried.candidate.words.pipeline, 1);
    EXPECT_EQ(tried.candidate.words.zero, 0);
  }
}

std::string message_of(const SearchLimits& limits, int64_t ranks) {
  try {
    verify(limits, ranks);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Search, SaysWhichLimitsContradict) {
  SearchLimits limits;
  fix_word(limits, "tensor=3");
  EXPECT_EQ(
      message_of(limits, 8),
      "tensor=3 takes groups of 3 ranks, which do not go into 8 devices; sizes "
      "must multiply to one of 1, 2, 4, 8");
  SearchLimits both;
  fix_word(both, "pipeline=2");
  forbid_word(both, "pipeline");
  EXPECT_EQ(
      message_of(both, 8),
      "pipeline=2 is asked for, and pipeline is forbidden; leave one of them "
      "out");
}

TEST(Search, EveryCandidateHasAReasonOrATime) {
  Case one = random_case(5);
  one.cluster.device.memory_bytes /= 3;
  const SearchResult result = search(one.graph, one.cluster, {});
  for (const Tried& tried : result.tried) {
    EXPECT_TRUE(!tried.reason.empty() || tried.seconds() > 0);
  }
}

}  // namespace
}  // namespace weft
