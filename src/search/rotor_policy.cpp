// SPDX-License-Identifier: Apache-2.0
#include "search/rotor_policy.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "program/live_bytes.h"
#include "search/candidate.h"
#include "search/recompute_policy.h"
#include "search/rotor.h"
#include "search/sample.h"
#include "search/units.h"

#include <algorithm>

namespace weft {
namespace {

// How often the room for activations is put right by what a program takes.
constexpr int kRoomAttempts = 6;

void set_choice(
    Plan& plan,
    const Function& step,
    const StepUnits& units,
    const ChainChoice& choice) {
  std::vector<RecomputePolicy> policies;
  for (const bool again : choice.is_again) {
    policies.push_back(again ? RecomputePolicy::Full : RecomputePolicy::None);
  }
  set_recompute(plan, step, units, policies, choice.keeps_output);
  plan.recompute_cheap = false;
}

}  // namespace

void set_recompute_by_rotor(
    Plan& plan,
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget_bytes) {
  WEFT_CHECK_USER(
      words.pipeline == 1,
      "rotor is for one stage; with a pipeline let the search choose");
  const Function& step = step_of(graph);
  const StepUnits units = step_units(step);
  const Candidate candidate = {
      .words = words, .recompute = RecomputePolicy::None, .may_mix = false};
  std::vector<ChainUnit> chain;
  int64_t all_bytes = 0;
  for (const UnitCost& cost : sample_costs(
           graph, units, key_of(candidate, RecomputePolicy::None), cluster)) {
    chain.push_back(
        {.forward_seconds = cost.forward_seconds,
         .kept_bytes = std::max(cost.kept_bytes, cost.output_bytes),
         .output_bytes = cost.output_bytes});
    all_bytes += chain.back().kept_bytes;
  }
  // The rest of what a rank holds does not depend on the choice.
  plan.recompute.clear();
  plan.recompute_cheap = false;
  int64_t least = peak_bytes(lower(graph, plan));
  if (least <= budget_bytes) {
    return;
  }
  int64_t room = all_bytes - (least - budget_bytes);
  for (int attempt = 0; attempt < kRoomAttempts; ++attempt) {
    const std::optional<ChainChoice> choice = rotor(chain, room);
    if (!choice) {
      break;
    }
    set_choice(plan, step, units, *choice);
    const int64_t peak = peak_bytes(lower(graph, plan));
    if (peak <= budget_bytes) {
      return;
    }
    least = std::min(least, peak);
    room -= peak - budget_bytes;
  }
  throw UserError(
      cat("rotor finds nothing that fits ",
          human_bytes(static_cast<double>(budget_bytes)),
          " a rank; the least it came to is ",
          human_bytes(static_cast<double>(least)),
          ": give more memory, more ranks, or zero=3"));
}

}  // namespace weft
