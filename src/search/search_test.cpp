// SPDX-License-Identifier: Apache-2.0
#include "search/search.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "profile/text_table.h"
#include "program/live_bytes.h"
#include "search/estimate.h"
#include "search/test_step.h"
#include "simulate/simulate.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>

namespace weft {
namespace {

struct Case {
  Graph graph;
  Cluster cluster;
};

// Models, machines and memory of many kinds, all of them small.
Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::vector<double> from) {
    return from[random() % from.size()];
  };
  const auto count_of = [&](std::vector<int64_t> from) {
    return from[random() % from.size()];
  };
  const int64_t devices = count_of({2, 2, 2, 2, 3, 4, 4, 4, 4, 8});
  const int64_t rows = devices == 8 ? 8 : devices * count_of({1, 2});
  const int64_t width = count_of({16, 32, 64});
  const int64_t layers = devices == 2   ? count_of({2, 3, 4})
                         : devices == 8 ? 2
                                        : count_of({2, 2, 3});
  const int64_t size = count_of({32, 64, 128});
  std::vector<int64_t> hiddens(static_cast<size_t>(layers), size);
  const bool is_even = random() % 2 == 0;
  for (int64_t& hidden : hiddens) {
    hidden = is_even ? hidden : count_of({16, 32, 64, 128, 256});
  }
  Case out;
  out.graph = chain_step(hiddens, rows, width);
  const bool has_nodes = devices % 4 == 0 && random() % 3 == 0;
  const double flops = one_of({1e8, 1e9, 1e10});
  const double link = one_of({1e6, 1e7, 1e8, 1e9, 1e10});
  out.cluster = test_cluster(has_nodes ? devices / 2 : devices, flops, link);
  if (has_nodes) {
    Group pod = out.cluster.groups.front();
    pod.name = "pod";
    pod.count = 2;
    pod.link.latency_seconds *= 10;
    pod.link.bytes_per_second /= one_of({1, 10});
    out.cluster.groups.push_back(pod);
  }
  // Of what one rank takes that keeps everything.
  Plan alone;
  alone.graph = out.graph.name;
  const Program program = lower(out.graph, alone);
  out.cluster.device.memory_bytes = static_cast<int64_t>(
      (devices < 4 ? one_of({0.4, 0.5, 0.6, 0.8, 1.5})
                   : one_of({0.25, 0.35, 0.5, 0.7, 1.5})) *
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

struct Found {
  // -1: nothing fits.
  double seconds = -1;
  Candidate candidate;
  std::vector<int32_t> starts;
};

// What the search has to say about what brute force found.
std::string describe(const Found& found, const SearchResult& result) {
  std::string text =
      cat(print(found.candidate), " (", print_double(found.seconds), " s)");
  for (const int32_t start : found.starts) {
    text += cat(" ", start);
  }
  for (const Tried& tried : result.tried) {
    if (tried.candidate == found.candidate) {
      text +=
          cat(": estimated ",
              print_double(tried.estimate.step_seconds),
              ", busy ",
              print_double(tried.estimate.busy_seconds),
              ", wires ",
              print_double(tried.estimate.wire_seconds),
              ", simulated ",
              print_double(tried.simulated_seconds.value_or(-1)),
              tried.is_doubtful ? ", doubtful" : "",
              tried.reason.empty() ? "" : "; ",
              tried.reason);
      for (const int32_t start : tried.estimate.stage_starts) {
        text += cat(" ", start);
      }
    }
  }
  return text;
}

// The least simulated time of all candidates, all cuts, that fit.
Found brute_force(const Case& one) {
  const StepUnits units = step_units(step_of(one.graph));
  std::set<std::string> seen;
  Found best;
  for (const Candidate& candidate : candidates(
           device_count(one.cluster),
           one.cluster.groups.front().count,
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
        // Policies may come to the same; no value here is large enough to be
        // made again for being cheap.
        Plan key = plan;
        key.recompute_cheap = false;
        if (!seen.insert(print(key)).second) {
          continue;
        }
        LowerOptions quick;
        quick.verify_each = false;
        const Program program = lower(one.graph, plan, one.cluster, quick);
        if (peak_bytes(program) > one.cluster.device.memory_bytes) {
          continue;
        }
        const double seconds = summarize(program, one.cluster).step_seconds;
        if (best.seconds < 0 || seconds < best.seconds) {
          best = {seconds, candidate, starts};
        }
      } catch (const UserError&) {
        // A word that fits nothing.
      }
    }
  }
  return best;
}

int setting(const char* name, int otherwise) {
  const char* wanted = std::getenv(name);
  return wanted == nullptr ? otherwise : std::atoi(wanted);
}

// A few small ones of many. 200 are a campaign of its own, of minutes:
//   WEFT_SEARCH_CASES=200 build/release/src/search_test
//     --gtest_filter=Search.FindsWhatBruteForceFinds
// WEFT_SEARCH_FIRST is the first of them, so that several processes can share.
TEST(Search, FindsWhatBruteForceFinds) {
  int found = 0;
  int missed = 0;
  int64_t simulated = 0;
  double worst = 1;
  const int first = setting("WEFT_SEARCH_FIRST", 4);
#ifdef __SANITIZE_ADDRESS__
  constexpr int kFew = 1;
#else
  constexpr int kFew = 3;
#endif
  const int cases = setting("WEFT_SEARCH_CASES", kFew);
  for (int seed = first; seed < first + cases; ++seed) {
    const Case one = random_case(static_cast<uint32_t>(seed));
    const Found expected = brute_force(one);
    const SearchResult result = search(one.graph, one.cluster, {});
    // It may find what makes again a part of the layers, which brute force does
    // not try.
    const bool is_lost = !result.plan && expected.seconds >= 0;
    EXPECT_FALSE(is_lost) << "case " << seed << ": "
                          << describe(expected, result);
    missed += is_lost ? 1 : 0;
    if (!result.plan || expected.seconds < 0) {
      continue;
    }
    ++found;
    simulated += result.simulated;
    const Tried& best = result.tried.front();
    const double times = best.seconds() / expected.seconds;
    EXPECT_LE(times, 1.01) << "case " << seed << ": " << print(best.candidate)
                           << " in place of " << describe(expected, result);
    EXPECT_LE(best.bytes(), one.cluster.device.memory_bytes);
    std::cout << "case " << seed << ": " << decimals(times, 4)
              << " times brute force" << std::endl;
    missed += times > 1.01 ? 1 : 0;
    worst = std::max(worst, times);
  }
  std::cout << cases << " cases, " << found << " with a plan, " << missed
            << " missed, the worst " << decimals(worst, 3)
            << " times brute force; " << simulated << " candidates simulated\n";
}

// The least that any candidate needs, by lowering all of them.
int64_t least_bytes(const Case& one, const SearchLimits& limits) {
  const StepUnits units = step_units(step_of(one.graph));
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Candidate& candidate : candidates(
           device_count(one.cluster),
           one.cluster.groups.front().count,
           batch_rows(one.graph),
           limits)) {
    Estimate estimate;
    estimate.recompute.assign(units.units.size(), candidate.recompute);
    try {
      const Plan plan =
          plan_of(one.graph, units, candidate, estimate, one.cluster.device);
      least = std::min(least, peak_bytes(lower(one.graph, plan, one.cluster)));
    } catch (const UserError&) {
      // A word that fits nothing.
    }
  }
  return least;
}

// A plan is found where there is one, and was lowered, whatever estimates say
// of its memory, and though the work that was set aside is used up before.
TEST(Search, FindsTheOnePlanThatFits) {
  const Case one = {
      chain_step({32, 64, 16, 32}, 8, 16), test_cluster(2, 1e9, 1e8)};
  SearchOptions options;
  fix_word(options.limits, "pipeline=2");
  options.max_bytes = least_bytes(one, options.limits);
  options.most_instructions = 4'000;
  const SearchResult result = search(one.graph, one.cluster, options);
  ASSERT_TRUE(result.plan.has_value());
  EXPECT_TRUE(result.tried.front().simulated_seconds.has_value());
  EXPECT_LE(result.tried.front().bytes(), *options.max_bytes);
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

TEST(Search, HasAsManyStagesAsAreFixed) {
  const auto all = [](const std::vector<std::string>& words) {
    SearchLimits limits;
    for (const std::string& word : words) {
      fix_word(limits, word);
    }
    return candidates(4, 4, 8, limits);
  };
  const std::vector<Candidate> six = all({"pipeline=2", "stages=6"});
  EXPECT_FALSE(six.empty());
  for (const Candidate& candidate : six) {
    EXPECT_EQ(candidate.words.schedule, "interleaved") << print(candidate);
    EXPECT_EQ(stage_count(candidate.words), 6) << print(candidate);
  }
  EXPECT_TRUE(all({"pipeline=2", "stages=5"}).empty());
  EXPECT_TRUE(all({"schedule=1f1b", "pipeline=2", "stages=4"}).empty());
  EXPECT_EQ(
      all({"schedule=1f1b", "pipeline=2", "stages=2"}),
      all({"schedule=1f1b", "pipeline=2"}));
  for (const Candidate& candidate : all({"stages=1"})) {
    EXPECT_EQ(candidate.words.pipeline, 1) << print(candidate);
  }
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
