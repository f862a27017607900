// SPDX-License-Identifier: Apache-2.0
// Graph + Cluster -> the plan that takes the least time of those that fit.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/candidate.h"
#include "search/rank_memory.h"
#include "search/space.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct SearchOptions {
  SearchLimits limits;
  // Of each rank; none: the device's memory.
  std::optional<int64_t> max_bytes;
  // After which the best that is known is taken; none: never.
  std::optional<double> time_limit_seconds;
  // How much is lowered and simulated at the most: instructions of all ranks
  // together. The same on every machine, so that results are, too.
  int64_t most_instructions = 60'000;
  // The best few candidates with `tensor` are tried with searched layouts, too
  // (layout_plan.h).
  bool searches_layouts = false;
  // The search ends with the first candidate that fits, and does not find out
  // what needs the least memory where none does: only whether a plan fits
  // matters to the caller.
  bool takes_first_fit = false;
  // Lines that count after those of the plan that is found.
  std::vector<Decision> decisions;
  // Called now and then with what is going on, for people.
  std::function<void(const std::string&)> progress;
  // Called before a candidate is lowered; what it throws is that candidate's
  // reason. For tests.
  std::function<void(const Candidate&)> before_lowering;
};

// A candidate that was looked at.
struct Tried {
  Candidate candidate;
  Estimate estimate = {};
  // By lowering and simulating it; none: it was not.
  std::optional<double> simulated_seconds = std::nullopt;
  std::optional<int64_t> simulated_bytes = std::nullopt;
  // By lowering it; empty: it was not.
  std::vector<RankMemory> memories = {};
  // Why it cannot be; empty: it can. A mistake of ours is a reason, too
  // (refusal.h).
  std::string reason = "";
  // It needs little more than there is by the estimate, which only lowering can
  // settle.
  bool is_doubtful = false;
  // One of the same words fits and makes less again; if lowering finds that it
  // does not fit after all, this one is looked at.
  bool is_settled = false;
  // Its estimate says no more than that it needs more than there is.
  bool is_bound = false;
  // It was not looked at, for a rank computes for so long at the least, and
  // another seems to take less in all; 0: it was. If nothing turns out to be
  // that fast, it is looked at.
  double least_seconds = 0;

  // What is known best.
  double seconds() const {
    return simulated_seconds ? *simulated_seconds : estimate.step_seconds;
  }
  int64_t bytes() const {
    return simulated_bytes ? *simulated_bytes : total(estimate.memory);
  }
};

// Where the time of a search went.
struct SearchSeconds {
  // Finding units and making the step smaller.
  double units = 0;
  // Lowering for one rank, and playing through what that gives.
  double samples = 0;
  double estimates = 0;
  double simulation = 0;
  // Writing the plan that was found.
  double plan = 0;
};

struct SearchResult {
  // None where nothing fits.
  std::optional<Plan> plan;
  // All of them: first those that can be, the fastest first; then the others.
  std::vector<Tried> tried;
  // Mistakes of ours that were met, each once, with the first candidate that
  // met it.
  std::vector<std::string> faults;
  int64_t budget_bytes = 0;
  int64_t ranks = 0;
  int64_t rows = 0;
  // Tokens of a batch: the elements of its first tensor where these are whole
  // numbers in rows; else 0.
  int64_t tokens = 0;
  // What one device takes for the forward and backward of the step as it is, at
  // its peak rates: what a plan adds does not count.
  double peak_seconds = 0;
  // Whether no candidate can be faster than the one that was taken, by the
  // simulator: all others were simulated, or compute for longer.
  bool is_proved = false;
  bool is_out_of_time = false;
  // How many ways to compute a micro-batch were looked at, and for how many of
  // them programs were lowered.
  int64_t samples = 0;
  int64_t lowered_samples = 0;
  int64_t simulated = 0;
  double seconds = 0;
  SearchSeconds by_stage;
  // What it was found by, large, and given back with the result: for whoever
  // ends soon it need not be at all.
  std::shared_ptr<const void> workings;
};

// Throws UserError for limits that contradict each other or the cluster.
SearchResult search(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options);

// Of the devices' peak rates, what the step itself makes use of.
double flops_utilisation(const SearchResult& result, const Tried& tried);

// The plan of a candidate: its words expanded, with these layouts if there are
// any (Estimator::layouts_of), the stages and what is made again as the
// estimate has them.
Plan plan_of(
    const Graph& graph,
    const StepUnits& units,
    const Candidate& candidate,
    const Estimate& estimate,
    const Device& device,
    const std::vector<Decision>* layouts = nullptr);

}  // namespace weft
