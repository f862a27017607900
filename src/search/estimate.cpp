// SPDX-License-Identifier: Apache-2.0
#include "search/estimate.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "ops/kernel_memory.h"
#include "search/compose.h"
#include "search/layout_plan.h"
#include "search/refusal.h"
#include "search/stage.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

namespace weft {
namespace {

Estimate impossible(std::string reason) {
  Estimate out;
  out.reason = std::move(reason);
  return out;
}

// How much the fullest position of an even cut needs at the least.
Estimate too_much(
    const Candidate& candidate,
    const StageCosts& costs,
    int32_t units,
    int64_t budget_bytes) {
  Estimate out;
  const int64_t stages = stage_count(candidate.words);
  const bool is_whole =
      candidate.may_mix || candidate.recompute == RecomputePolicy::Full;
  std::vector<MemoryParts> positions(
      static_cast<size_t>(candidate.words.pipeline));
  int32_t begin = 0;
  for (int64_t number = 0; number < stages; ++number) {
    int32_t end =
        number + 1 == stages
            ? units
            : std::max<int32_t>(
                  begin + 1,
                  static_cast<int32_t>(units * (number + 1) / stages));
    end = std::min(end, units);
    add_stage(
        positions[static_cast<size_t>(number) % positions.size()],
        costs.stage(begin, end, is_whole ? end - begin : 0, number).memory);
    begin = end;
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    if (total(positions[i]) > total(out.memory)) {
      out.fullest_stage = static_cast<int64_t>(i);
      out.memory = positions[i];
    }
  }
  const int64_t most = total(out.memory);
  out.needed_bytes = most;
  out.reason =
      cat(candidate.words.pipeline == 1 ? "a rank"
          : stages == candidate.words.pipeline
              ? cat("stage ", out.fullest_stage)
              : cat("position ", out.fullest_stage),
          " needs ",
          human_bytes(static_cast<double>(most)),
          " of ",
          human_bytes(static_cast<double>(budget_bytes)));
  return out;
}

}  // namespace

Estimator::Estimator(const Graph& graph, const Cluster& cluster)
    : graph_(graph),
      cluster_(cluster),
      units_(step_units(step_of(graph))),
      cuts_(cuts_of(units_)),
      shrunk_(shrink(graph, units_)),
      samples_(shrunk_.graph, shrunk_.units, cluster) {}

void Estimator::expect(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    samples_.expect(key_of(candidate, candidate.recompute));
  }
}

template <typename Work>
auto Estimator::timed(const Work& work) {
  const CountedKernels rough;
  const auto begin = std::chrono::steady_clock::now();
  auto out = work();
  sample_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return out;
}

const UnitTable& Estimator::table(const SampleKey& key) {
  const auto [at, is_new] = tables_.try_emplace(key);
  UnitTable& out = at->second;
  if (!is_new) {
    return out;
  }
  std::vector<UnitCost> costs;
  out.reason = timed([&] {
    return refusal_of([&] {
      costs =
          key.has_searched_layouts ? searched_costs(key) : samples_.costs(key);
    });
  });
  if (!out.reason.empty()) {
    return out;
  }
  out = unit_table(costs, shrunk_.stands_for);
  return out;
}

// What happens once for all parts counts as much less for one of them; what
// ranks of `data` exchange is not known here and left out.
const std::vector<Decision>& Estimator::layouts(
    int64_t batch_parts, int64_t tensor) {
  const auto [at, is_new] = layouts_.try_emplace({batch_parts, tensor});
  if (is_new) {
    const LayoutQuestion question = {
        .batch_parts = batch_parts,
        .micro_batches = batch_parts,
        .tensor = tensor};
    std::vector<SearchedLayouts> menu =
        layout_menu(graph_, shrunk_, cluster_, question);
    if (!menu.empty()) {
      at->second = std::move(menu.front().decisions);
    }
  }
  WEFT_CHECK_USER(
      !at->second.empty(), "no layouts along tensor=", tensor, " are faster");
  return at->second;
}

const std::vector<Decision>* Estimator::layouts_of(const Candidate& candidate) {
  if (!candidate.has_searched_layouts) {
    return nullptr;
  }
  const SampleKey key = key_of(candidate, candidate.recompute);
  return &layouts(key.batch_parts, key.tensor);
}

std::vector<UnitCost> Estimator::searched_costs(const SampleKey& key) {
  const Graph& graph = shrunk_.graph;
  Plan plan = expand(
      words_of(key),
      layouts(key.batch_parts, key.tensor),
      graph,
      cluster_.device);
  set_recompute(plan, step_of(graph), shrunk_.units, key.recompute);
  const Program program = lower_first_rank(graph, plan);
  return play_sample(
      program,
      sample_shape(program, shrunk_.units),
      shrunk_.units,
      key,
      cluster_);
}

const Link& Estimator::data_link(int64_t ranks, int64_t stride) {
  const auto [at, is_new] = links_.try_emplace({ranks, stride});
  if (is_new && ranks > 1) {
    std::vector<int64_t> group;
    for (int64_t i = 0; i < ranks; ++i) {
      group.push_back(i * stride);
    }
    at->second = link_between(cluster_, group);
  }
  return at->second;
}

double Estimator::least_seconds(const Candidate& candidate) {
  const UnitTable& base = table(key_of(candidate, candidate.recompute));
  if (!base.reason.empty()) {
    return 0;
  }
  return weft::least_seconds(candidate.words, base.before_seconds.back());
}

// The table of the same words with the most rows in a micro-batch and nothing
// recomputed; nullptr where there is none.
const UnitTable* Estimator::largest_table(const Candidate& candidate) {
  const SampleKey key = key_of(candidate, RecomputePolicy::None);
  if (key.has_searched_layouts) {
    return nullptr;
  }
  const auto largest = timed([&] { return samples_.largest(key); });
  if (!largest) {
    return nullptr;
  }
  const UnitTable& out = table(*largest);
  return out.reason.empty() ? &out : nullptr;
}

double Estimator::floor_seconds(const Candidate& candidate) {
  const UnitTable* largest = largest_table(candidate);
  if (largest == nullptr) {
    return 0;
  }
  // A micro-batch that is the whole batch takes no less time than a part of it.
  const int64_t parts = std::max(
      key_of(candidate, candidate.recompute).batch_parts,
      samples_.fewest_parts());
  return weft::least_seconds(
      candidate.words,
      largest->before_seconds.back() *
          static_cast<double>(samples_.fewest_parts()) /
          static_cast<double>(parts));
}

int64_t Estimator::floor_bytes(const Candidate& candidate) {
  const UnitTable* largest = largest_table(candidate);
  return largest == nullptr
             ? 0
             : staying_bytes(candidate.words, largest->before.back()) /
                   candidate.words.pipeline;
}

std::string Estimator::refusal(const Candidate& candidate) const {
  const int64_t wanted = stage_count(candidate.words);
  return wanted <= cuts_.most_stages()
             ? ""
             : cat(wanted,
                   " stages of a step that can be cut into ",
                   cuts_.most_stages());
}

Estimate Estimator::estimate(const Candidate& candidate, int64_t budget_bytes) {
  const std::string reason = refusal(candidate);
  if (!reason.empty()) {
    return impossible(reason);
  }
  const UnitTable& base = table(key_of(candidate, candidate.recompute));
  const UnitTable& whole = candidate.may_mix
                               ? table(key_of(candidate, RecomputePolicy::Full))
                               : base;
  if (!base.reason.empty() || !whole.reason.empty()) {
    return impossible(base.reason.empty() ? whole.reason : base.reason);
  }
  const int64_t data = candidate.words.data;
  const int64_t stride = ranks_a_part(candidate);
  const StageLinks links = {
      .data = &data_link(data, stride),
      .next = &data_link(candidate.words.pipeline > 1 ? 2 : 1, stride * data)};
  const StageCosts costs(candidate, base, whole);
  const std::optional<std::vector<Stage>> stages =
      cut_stages(candidate, costs, cuts_, budget_bytes);
  return stages ? compose(candidate, links, base, *stages)
                : too_much(candidate, costs, cuts_.units(), budget_bytes);
}

}  // namespace weft
