// SPDX-License-Identifier: Apache-2.0
#include "search/trial.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "search/rank_memory.h"
#include "search/refusal.h"
#include "simulate/simulate.h"

#include <algorithm>

namespace weft {
namespace {

// So many cuts of a step into stages are all tried.
constexpr size_t kMostCuts = 40;
// How often the number of layers that are made again whole is put right.
constexpr int kLayerAttempts = 3;

}  // namespace

bool has_whole_layers(const Tried& tried) {
  return std::any_of(
      tried.estimate.recompute.begin(),
      tried.estimate.recompute.end(),
      [](RecomputePolicy policy) { return policy == RecomputePolicy::Full; });
}

void Trials::run(Tried& tried, bool tries_cuts) {
  int64_t budget = budget_bytes_;
  Tried best = tried;
  for (int attempt = 0; attempt < kLayerAttempts; ++attempt) {
    Tried now = tried;
    lower_and_simulate(now);
    const bool is_better = now.reason.empty() &&
                           (!best.simulated_seconds ||
                            *now.simulated_seconds < *best.simulated_seconds);
    if (attempt == 0 || is_better) {
      best = now;
    }
    const int64_t off = now.simulated_bytes.value_or(0) - budget_bytes_;
    if (!tried.candidate.may_mix || !now.simulated_bytes ||
        (off <= 0 && !has_whole_layers(tried))) {
      break;
    }
    budget -= off;
    Estimate other = estimator_.estimate(tried.candidate, budget);
    if (!other.reason.empty() ||
        (other.recompute == tried.estimate.recompute &&
         other.stage_starts == tried.estimate.stage_starts)) {
      break;
    }
    tried.estimate = std::move(other);
  }
  tried = std::move(best);
  if (!tries_cuts || tried.estimate.stage_starts.size() < 2 ||
      !tried.simulated_bytes) {
    return;
  }
  std::vector<std::vector<int32_t>> cuts;
  if (each_cut({0}, tried.estimate.stage_starts.size(), cuts)) {
    try_cuts(cuts, tried);
  } else if (tried.reason.empty()) {
    shift_stages(tried);
  }
}

// All ways to cut units into stages, as first units; false: too many.
bool Trials::each_cut(
    const std::vector<int32_t>& starts,
    size_t stages,
    std::vector<std::vector<int32_t>>& out) const {
  if (starts.size() == stages) {
    out.push_back(starts);
    return out.size() <= kMostCuts;
  }
  for (int32_t i = starts.back() + 1; i < estimator_.units().size(); ++i) {
    if (estimator_.units()
            .units[static_cast<size_t>(i)]
            .stage_pattern.empty()) {
      continue;
    }
    std::vector<int32_t> more = starts;
    more.push_back(i);
    if (!each_cut(more, stages, out)) {
      return false;
    }
  }
  return true;
}

// The fastest that fits, by the simulator.
void Trials::try_cuts(
    const std::vector<std::vector<int32_t>>& cuts, Tried& tried) {
  const Tried first = tried;
  for (const std::vector<int32_t>& starts : cuts) {
    if (starts == first.estimate.stage_starts) {
      continue;
    }
    Tried now = first;
    now.estimate.stage_starts = starts;
    now.simulated_seconds.reset();
    lower_and_simulate(now);
    if (now.reason.empty() &&
        (!tried.reason.empty() ||
         *now.simulated_seconds < *tried.simulated_seconds)) {
      tried = std::move(now);
    }
  }
}

// What stages wait for each other is not in the estimate's cut: where
// lowering is quick, their beginnings are moved as long as that is faster.
void Trials::shift_stages(Tried& tried) {
  bool is_faster = tried.estimate.stage_starts.size() > 1;
  while (is_faster) {
    is_faster = false;
    for (size_t i = 1; i < tried.estimate.stage_starts.size(); ++i) {
      for (const int32_t by : {-1, 1}) {
        Tried now = tried;
        if (shift(now.estimate.stage_starts, i, by)) {
          lower_and_simulate(now);
          if (now.reason.empty() &&
              *now.simulated_seconds < *tried.simulated_seconds) {
            tried = std::move(now);
            is_faster = true;
          }
        }
      }
    }
  }
}

// To the next place where a stage can begin; false: there is none.
bool Trials::shift(
    std::vector<int32_t>& starts, size_t stage, int32_t by) const {
  const int32_t after =
      stage + 1 < starts.size() ? starts[stage + 1] : estimator_.units().size();
  for (int32_t unit = starts[stage] + by;
       unit > starts[stage - 1] && unit < after;
       unit += by) {
    if (!estimator_.units()
             .units[static_cast<size_t>(unit)]
             .stage_pattern.empty()) {
      starts[stage] = unit;
      return true;
    }
  }
  return false;
}

void Trials::lower_and_simulate(Tried& tried) {
  tried.reason.clear();
  const std::string refusal = refusal_of([&] {
    LowerOptions quick;
    quick.verify_each = false;
    quick.rules = rules_;
    if (before_lowering_) {
      before_lowering_(tried.candidate);
    }
    const Program program = lower(graph_, plan_for(tried), cluster_, quick);
    tried.memories = rank_memories(program);
    const int64_t most = fullest(tried.memories)->peak_bytes;
    tried.simulated_bytes = most;
    if (most > budget_bytes_) {
      tried.reason =
          cat("a rank needs ",
              human_bytes(static_cast<double>(most)),
              " of ",
              human_bytes(static_cast<double>(budget_bytes_)));
      return;
    }
    tried.simulated_seconds = summarize(program, cluster_).step_seconds;
  });
  if (!refusal.empty()) {
    tried.reason = refusal;
  }
}

Plan Trials::plan_for(const Tried& tried) {
  Plan plan = plan_of(
      graph_,
      estimator_.units(),
      tried.candidate,
      tried.estimate,
      cluster_.device,
      estimator_.layouts_of(tried.candidate));
  plan.decisions.insert(
      plan.decisions.end(), decisions_.begin(), decisions_.end());
  return plan;
}

}  // namespace weft
