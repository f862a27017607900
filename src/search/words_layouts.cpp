// SPDX-License-Identifier: Apache-2.0
#include "search/words_layouts.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "search/layout_plan.h"
#include "search/rank_memory.h"
#include "search/refusal.h"
#include "search/shrink.h"
#include "search/units.h"
#include "simulate/simulate.h"

#include <algorithm>
#include <optional>

namespace weft {
namespace {

// So many of the menu are lowered.
constexpr int kMenuEntries = 3;

class LayoutTrial {
 public:
  LayoutTrial(const Graph& graph, const Cluster& cluster, int64_t budget_bytes)
      : graph_(graph), cluster_(cluster), budget_bytes_(budget_bytes) {}

  // What the simulator says; none where it does not fit or cannot be lowered.
  std::optional<double> seconds(const Plan& plan) {
    std::optional<double> out;
    reason_ = refusal_of([&] {
      LowerOptions quick;
      quick.verify_each = false;
      const Program program = lower(graph_, plan, cluster_, quick);
      const int64_t most = fullest(rank_memories(program))->peak_bytes;
      least_bytes_ = least_bytes_ < 0 ? most : std::min(least_bytes_, most);
      if (most <= budget_bytes_) {
        out = summarize(program, cluster_).step_seconds;
      }
    });
    return out;
  }

  void check(bool has_plan) const {
    WEFT_CHECK_USER(
        has_plan || least_bytes_ >= 0,
        "neither the words nor other layouts can be lowered: ",
        reason_);
    WEFT_CHECK_USER(
        has_plan,
        "no layouts fit ",
        human_bytes(static_cast<double>(budget_bytes_)),
        " a rank; the least that was found takes ",
        human_bytes(static_cast<double>(least_bytes_)),
        ": give more ranks, or zero=3");
  }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const int64_t budget_bytes_;
  // Of all that were lowered; -1: none.
  int64_t least_bytes_ = -1;
  std::string reason_;
};

}  // namespace

void verify_for_layouts(const Parallel& words) {
  Parallel known;
  known.data = words.data;
  known.tensor = words.tensor;
  known.sequence = words.sequence;
  known.zero = words.zero;
  known.pipeline = words.pipeline;
  known.stages = words.stages;
  known.schedule = words.schedule;
  known.own_schedule = words.own_schedule;
  known.micro_batches = words.micro_batches;
  WEFT_CHECK_USER(
      words.tensor.size() == 1 && known == words,
      "layouts are searched along the axis of tensor: give tensor=N, with "
      "data, zero, pipeline and micro-batches if need be; found ",
      quote(print(words)));
}

std::vector<Plan> plans_of_menu(
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int most) {
  verify_for_layouts(words);
  Parallel axes = words;
  axes.sequence = false;
  const StepUnits units = step_units(step_of(graph));
  const ShrunkStep shrunk = shrink(graph, units);
  const LayoutQuestion question = {
      .batch_parts = words.data * words.micro_batches,
      .micro_batches = words.micro_batches,
      .tensor = words.tensor.front()};
  std::vector<Plan> plans;
  for (const SearchedLayouts& layouts :
       layout_menu(graph, shrunk, cluster, question, most)) {
    plans.push_back(expand(axes, layouts.decisions, graph, cluster.device));
  }
  return plans;
}

WordsPlan plan_with_layouts(
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget_bytes) {
  verify_for_layouts(words);
  LayoutTrial trial(graph, cluster, budget_bytes);
  std::optional<WordsPlan> best;
  try {
    const Plan plan = expand(words, graph, cluster.device);
    if (const std::optional<double> seconds = trial.seconds(plan)) {
      best = {
          .plan = plan, .step_seconds = *seconds, .words_seconds = *seconds};
    }
  } catch (const UserError&) {
    // Words that fit nothing of the step: other layouts may.
  }
  for (const Plan& plan : plans_of_menu(graph, words, cluster, kMenuEntries)) {
    const std::optional<double> seconds = trial.seconds(plan);
    if (seconds && (!best || *seconds < best->step_seconds)) {
      const double by_words = best ? best->words_seconds : -1;
      best = {
          .plan = plan,
          .step_seconds = *seconds,
          .words_seconds = by_words,
          .is_searched = true};
    }
  }
  trial.check(best.has_value());
  return std::move(*best);
}

}  // namespace weft
