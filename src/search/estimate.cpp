// SPDX-License-Identifier: Apache-2.0
// A stage takes its units' time for every micro-batch, its memory is what its
// units keep for all micro-batches that are under way. Both grow with every
// unit. So for a limit of time, filling one stage after the other as far as
// time and memory allow finds a cut if there is one; and the least limit is
// found by halving.
#include "search/estimate.h"

#include "base/error.h"
#include "base/text.h"
#include "simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace weft {
namespace {

constexpr int kHalvings = 30;
// Where halving ends: the slowest stage is that near to the fastest it can be.
constexpr double kNearEnough = 5e-4;
// Of a backward, without the gradients of weights.
constexpr double kInputGradientShare = 0.5;

UnitCost sum(const UnitCost& a, const UnitCost& b) {
  return {
      .forward_seconds = a.forward_seconds + b.forward_seconds,
      .backward_seconds = a.backward_seconds + b.backward_seconds,
      .again_seconds = a.again_seconds + b.again_seconds,
      .transfer_seconds = a.transfer_seconds + b.transfer_seconds,
      .update_seconds = a.update_seconds + b.update_seconds,
      .kept_bytes = a.kept_bytes + b.kept_bytes,
      .temporary_bytes = std::max(a.temporary_bytes, b.temporary_bytes),
      .output_bytes = b.output_bytes,
      .parameter_bytes = a.parameter_bytes + b.parameter_bytes,
      .gradient_bytes = a.gradient_bytes + b.gradient_bytes,
      .state_bytes = a.state_bytes + b.state_bytes};
}

// What units [begin, end) cost; temporaries are those of all units up to end.
UnitCost between(const Estimator::Table& table, int32_t begin, int32_t end) {
  const UnitCost& a = table.before[static_cast<size_t>(begin)];
  const UnitCost& b = table.before[static_cast<size_t>(end)];
  return {
      .forward_seconds = b.forward_seconds - a.forward_seconds,
      .backward_seconds = b.backward_seconds - a.backward_seconds,
      .again_seconds = b.again_seconds - a.again_seconds,
      .transfer_seconds = b.transfer_seconds - a.transfer_seconds,
      .update_seconds = b.update_seconds - a.update_seconds,
      .kept_bytes = b.kept_bytes - a.kept_bytes,
      .temporary_bytes = b.temporary_bytes,
      .output_bytes = b.output_bytes,
      .parameter_bytes = b.parameter_bytes - a.parameter_bytes,
      .gradient_bytes = b.gradient_bytes - a.gradient_bytes,
      .state_bytes = b.state_bytes - a.state_bytes};
}

struct Stage {
  int32_t begin = 0;
  int32_t end = 0;
  // Units from `begin` on that are made again whole.
  int32_t whole_again = 0;
  UnitCost cost;
  MemoryParts memory;

  double seconds() const {
    return cost.forward_seconds + cost.backward_seconds;
  }
};

class Composition {
 public:
  Composition(
      const Candidate& candidate,
      const StepUnits& units,
      const Cluster& cluster,
      int64_t budget,
      const Estimator::Table& base,
      const Estimator::Table& whole)
      : words_(candidate.words),
        candidate_(candidate),
        units_(units),
        cluster_(cluster),
        budget_(budget),
        base_(base),
        whole_(whole),
        stages_(stage_count(candidate.words)),
        chunks_(stages_ / words_.pipeline) {
    for (const UnitCost& unit : base.units) {
      largest_parameter_ = std::max(largest_parameter_, unit.parameter_bytes);
      largest_gradient_ = std::max(largest_gradient_, unit.gradient_bytes);
      slowest_unit_ =
          std::max(slowest_unit_, unit.forward_seconds + unit.backward_seconds);
    }
  }

  Estimate run() {
    Estimate out;
    if (units_.size() < stages_ || cuts() + 1 < stages_) {
      out.reason =
          cat(stages_, " stages of a step that can be cut into ", cuts() + 1);
      return out;
    }
    const std::optional<std::vector<Stage>> found =
        chunks_ == 1 ? best_cut() : even_cut();
    if (!found) {
      explain(out);
      return out;
    }
    compose(*found, out);
    return out;
  }

 private:
  bool can_cut(int32_t unit) const {
    return unit == units_.size() ||
           !units_.units[static_cast<size_t>(unit)].stage_pattern.empty();
  }

  int64_t cuts() const {
    int64_t count = 0;
    for (int32_t i = 1; i < units_.size(); ++i) {
      count += can_cut(i) ? 1 : 0;
    }
    return count;
  }

  // Micro-batches of a stage that are under way at once, at the most.
  int64_t under_way(int64_t stage) const {
    const int64_t all = words_.micro_batches;
    if (words_.pipeline == 1) {
      return 1;
    }
    if (words_.schedule == "gpipe") {
      return all;
    }
    const int64_t position = stage % words_.pipeline;
    const int64_t behind = words_.pipeline - position;
    if (chunks_ == 1) {
      return std::min(all, behind);
    }
    // Chunks take turns of as many micro-batches as there are positions.
    return std::min(
        all,
        (2 * (behind - 1) + (chunks_ - 1) * words_.pipeline + 1 + chunks_ - 1) /
            chunks_);
  }

  MemoryParts memory(const UnitCost& cost, int64_t stage) const {
    const int64_t data = words_.data;
    const auto piece = [&](int64_t bytes, int level) {
      return words_.zero >= level ? (bytes + data - 1) / data : bytes;
    };
    MemoryParts parts;
    parts.parameter_bytes = piece(cost.parameter_bytes, 3);
    parts.state_bytes = piece(cost.state_bytes, 1);
    const bool is_summed_up = words_.micro_batches > 1 || words_.pipeline > 1;
    parts.gradient_bytes =
        is_summed_up ? piece(cost.gradient_bytes, 2)
                     : std::min(cost.gradient_bytes, 2 * largest_gradient_);
    if (words_.zero >= 3) {
      parts.temporary_bytes += 2 * largest_parameter_;
    }
    parts.kept_bytes = cost.kept_bytes * under_way(stage);
    parts.temporary_bytes += cost.temporary_bytes;
    return parts;
  }

  Stage stage_of(
      int32_t begin, int32_t end, int32_t whole, int64_t number) const {
    Stage stage = {
        .begin = begin,
        .end = end,
        .whole_again = whole,
        .cost = {},
        .memory = {}};
    const UnitCost again = between(whole_, begin, begin + whole);
    const UnitCost rest = between(base_, begin + whole, end);
    stage.cost = whole == 0             ? rest
                 : whole == end - begin ? again
                                        : sum(again, rest);
    stage.memory = memory(stage.cost, number);
    return stage;
  }

  // The stage with as few units made again whole as fit; none when nothing
  // does.
  std::optional<Stage> fitting(
      int32_t begin, int32_t end, int64_t number) const {
    Stage stage = stage_of(begin, end, 0, number);
    if (total(stage.memory) <= budget_) {
      return stage;
    }
    if (!candidate_.may_mix) {
      return std::nullopt;
    }
    stage = stage_of(begin, end, end - begin, number);
    if (total(stage.memory) > budget_) {
      return std::nullopt;
    }
    int32_t low = 0;
    int32_t high = end - begin;
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      const Stage now = stage_of(begin, end, middle, number);
      if (total(now.memory) <= budget_) {
        high = middle;
        stage = now;
      } else {
        low = middle;
      }
    }
    return stage;
  }

  // The last place at which a stage may end, from `begin` on and no later than
  // `end`; -1: none.
  int32_t last_cut(int32_t begin, int32_t end) const {
    while (end > begin && !can_cut(end)) {
      --end;
    }
    return end > begin ? end : -1;
  }

  // The longest stage from `begin` on that takes no longer than the limit; time
  // and memory grow with every unit.
  std::optional<Stage> longest(
      int32_t begin, int32_t most, int64_t number, double limit) const {
    std::optional<Stage> best;
    int32_t low = begin;
    int32_t high = most + 1;
    while (high - low > 1) {
      const int32_t end = last_cut(low, (low + high) / 2);
      if (end < 0) {
        low = (low + high) / 2;
        continue;
      }
      const std::optional<Stage> now = fitting(begin, end, number);
      if (now && now->seconds() <= limit) {
        best = now;
        low = (low + high) / 2;
      } else {
        high = end;
      }
    }
    return best;
  }

  std::optional<std::vector<Stage>> fill(double limit) const {
    std::vector<Stage> out;
    int32_t begin = 0;
    for (int64_t number = 0; number < stages_; ++number) {
      const auto left = static_cast<int32_t>(stages_ - number - 1);
      std::optional<Stage> best;
      if (left > 0) {
        best = longest(begin, units_.size() - left, number, limit);
      } else {
        best = fitting(begin, units_.size(), number);
      }
      if (!best || best->seconds() > limit) {
        return std::nullopt;
      }
      begin = best->end;
      out.push_back(*best);
    }
    return out;
  }

  std::optional<std::vector<Stage>> best_cut() const {
    constexpr double kAny = std::numeric_limits<double>::infinity();
    std::optional<std::vector<Stage>> best = fill(kAny);
    if (!best || stages_ == 1) {
      return best;
    }
    double high = 0;
    double all = 0;
    for (const Stage& stage : *best) {
      high = std::max(high, stage.seconds());
      all += stage.seconds();
    }
    double low =
        std::max(slowest_unit_, all / static_cast<double>(2 * stages_));
    for (int i = 0; i < kHalvings && high - low > kNearEnough * high; ++i) {
      const double middle = (low + high) / 2;
      std::optional<std::vector<Stage>> now = fill(middle);
      if (now) {
        high = middle;
        best = std::move(now);
      } else {
        low = middle;
      }
    }
    return best;
  }

  // By time alone; all units of the same kind.
  std::optional<std::vector<Stage>> even_cut() const {
    for (const bool whole : {false, true}) {
      if (whole && !candidate_.may_mix) {
        break;
      }
      std::vector<Stage> out;
      const Estimator::Table& table = whole ? whole_ : base_;
      const UnitCost all = between(table, 0, units_.size());
      const double share = (all.forward_seconds + all.backward_seconds) /
                           static_cast<double>(stages_);
      std::vector<MemoryParts> at(static_cast<size_t>(words_.pipeline));
      int32_t begin = 0;
      for (int64_t number = 0; number < stages_; ++number) {
        const auto left = static_cast<int32_t>(stages_ - number - 1);
        int32_t best = -1;
        double least = 0;
        for (int32_t end = begin + 1; end <= units_.size() - left; ++end) {
          if (left == 0 ? end != units_.size() : !can_cut(end)) {
            continue;
          }
          const UnitCost cost = between(table, 0, end);
          const double off = std::abs(
              cost.forward_seconds + cost.backward_seconds -
              share * static_cast<double>(number + 1));
          if (best < 0 || off < least) {
            best = end;
            least = off;
          }
        }
        if (best < 0) {
          return std::nullopt;
        }
        out.push_back(stage_of(begin, best, whole ? best - begin : 0, number));
        add(at[static_cast<size_t>(number % words_.pipeline)],
            out.back().memory);
        begin = best;
      }
      const bool fits = std::all_of(at.begin(), at.end(), [&](const auto& one) {
        return total(one) <= budget_;
      });
      if (fits) {
        // The memory of a position is that of its stages together.
        for (size_t i = 0; i < out.size(); ++i) {
          out[i].memory = at[i % at.size()];
        }
        return out;
      }
    }
    return std::nullopt;
  }

  static void add(MemoryParts& to, const MemoryParts& more) {
    to.parameter_bytes += more.parameter_bytes;
    to.gradient_bytes += more.gradient_bytes;
    to.state_bytes += more.state_bytes;
    to.kept_bytes += more.kept_bytes;
    to.temporary_bytes = std::max(to.temporary_bytes, more.temporary_bytes);
  }

  // How much the fullest stage of an even cut needs at the least.
  void explain(Estimate& out) const {
    int64_t most = 0;
    const bool is_whole =
        candidate_.may_mix || candidate_.recompute == RecomputePolicy::Full;
    int32_t begin = 0;
    for (int64_t number = 0; number < stages_; ++number) {
      int32_t end = number + 1 == stages_
                        ? units_.size()
                        : std::max<int32_t>(
                              begin + 1,
                              static_cast<int32_t>(
                                  units_.size() * (number + 1) / stages_));
      end = std::min(end, units_.size());
      const Stage stage =
          stage_of(begin, end, is_whole ? end - begin : 0, number);
      if (total(stage.memory) > most) {
        most = total(stage.memory);
        out.fullest_stage = number;
        out.memory = stage.memory;
      }
      begin = end;
    }
    out.needed_bytes = most;
    out.reason =
        cat(words_.pipeline > 1 ? cat("stage ", out.fullest_stage) : "a rank",
            " needs ",
            human_bytes(static_cast<double>(most)),
            " of ",
            human_bytes(static_cast<double>(budget_)));
  }

  double exchange(TransferKind kind, int64_t bytes) const {
    const int64_t ranks = words_.data;
    if (ranks == 1 || bytes == 0) {
      return 0;
    }
    const int64_t stride = ranks_a_part(candidate_);
    std::vector<int64_t> group;
    for (int64_t i = 0; i < ranks; ++i) {
      group.push_back(i * stride);
    }
    const int64_t once = bytes / ranks * (ranks - 1);
    return transfer_seconds(
        kind,
        ranks,
        kind == TransferKind::AllReduce ? 2 * once : once,
        link_between(cluster_, group));
  }

  // What the exchanges of a stage's gradients and parameters add to a step.
  double exposed(const Stage& stage) const {
    const double backward = stage.cost.backward_seconds;
    const double forward = stage.cost.forward_seconds;
    const int64_t gradients = stage.cost.gradient_bytes;
    const int64_t parameters = stage.cost.parameter_bytes;
    if (words_.zero == 0) {
      const double all = exchange(TransferKind::AllReduce, gradients);
      // The last unit's are ready when backward ends.
      const double last = exchange(
          TransferKind::AllReduce, std::min(gradients, largest_gradient_));
      return std::max(all - backward, std::min(last, all));
    }
    const double scattered = exchange(TransferKind::ReduceScatter, gradients);
    const double gathered = exchange(TransferKind::AllGather, parameters);
    double out = std::max(
        scattered - backward,
        exchange(
            TransferKind::ReduceScatter,
            std::min(gradients, largest_gradient_)));
    if (words_.zero < 3) {
      return out + gathered;
    }
    const double first = exchange(
        TransferKind::AllGather, std::min(parameters, largest_parameter_));
    return out + std::max(gathered - forward, first) +
           std::max(gathered - backward, 0.0);
  }

  void compose(const std::vector<Stage>& stages, Estimate& out) const {
    const auto parts = static_cast<double>(words_.micro_batches);
    // By position: of a micro-batch through all its stages.
    std::vector<double> busy(static_cast<size_t>(words_.pipeline), 0);
    std::vector<double> again(busy.size(), 0);
    std::vector<double> transfers(busy.size(), 0);
    std::vector<double> exchanges(busy.size(), 0);
    std::vector<double> updates(busy.size(), 0);
    double through = 0;
    double sent = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
      const Stage& stage = stages[i];
      const size_t position = i % busy.size();
      busy[position] += stage.seconds();
      again[position] += stage.cost.again_seconds;
      transfers[position] += stage.cost.transfer_seconds;
      exchanges[position] += exposed(stage);
      updates[position] +=
          stage.cost.update_seconds /
          (words_.zero > 0 ? static_cast<double>(words_.data) : 1.0);
      through += stage.seconds();
      if (i + 1 < stages.size()) {
        const int64_t stride = ranks_a_part(candidate_) * words_.data;
        sent += 2 * transfer_seconds(
                        TransferKind::Send,
                        2,
                        stage.cost.output_bytes,
                        link_between(cluster_, {0, stride}));
      }
      if (total(stage.memory) > total(out.memory)) {
        out.memory = stage.memory;
        out.fullest_stage = static_cast<int64_t>(i);
      }
      out.stage_starts.push_back(stage.begin);
      for (int32_t unit = stage.begin; unit < stage.end; ++unit) {
        out.recompute.push_back(
            unit - stage.begin < stage.whole_again ? RecomputePolicy::Full
                                                   : candidate_.recompute);
      }
    }
    const double slowest = *std::max_element(busy.begin(), busy.end());
    double bubble = through - slowest;
    if (chunks_ > 1) {
      bubble = slowest * static_cast<double>(words_.pipeline - 1) /
               static_cast<double>(chunks_);
    } else if (words_.schedule == "zb-h1") {
      bubble *= 1 - kInputGradientShare;
    }
    size_t last = 0;
    for (size_t i = 0; i < busy.size(); ++i) {
      last = exchanges[i] + updates[i] > exchanges[last] + updates[last] ? i
                                                                         : last;
    }
    out.busy_seconds = parts * slowest;
    out.bubble_seconds = bubble + sent;
    out.again_seconds = parts * *std::max_element(again.begin(), again.end());
    out.transfer_seconds =
        parts * *std::max_element(transfers.begin(), transfers.end());
    out.update_seconds = updates[last];
    out.exchange_seconds = exchanges[last];
    out.step_seconds = out.busy_seconds + out.bubble_seconds +
                       out.exchange_seconds + out.update_seconds;
  }

  const Parallel& words_;
  const Candidate& candidate_;
  const StepUnits& units_;
  const Cluster& cluster_;
  const int64_t budget_;
  const Estimator::Table& base_;
  const Estimator::Table& whole_;
  const int64_t stages_;
  // Stages a position.
  const int64_t chunks_;
  int64_t largest_parameter_ = 0;
  int64_t largest_gradient_ = 0;
  double slowest_unit_ = 0;
};

}  // namespace

Estimator::Estimator(const Graph& graph, const Cluster& cluster)
    : cluster_(cluster),
      units_(step_units(step_of(graph))),
      shrunk_(shrink(graph, units_)) {}

const Estimator::Table& Estimator::table(const SampleKey& key) {
  const auto found = tables_.find(key);
  if (found != tables_.end()) {
    return found->second;
  }
  Table& out = tables_[key];
  std::vector<UnitCost> costs;
  try {
    costs = sample_costs(shrunk_.graph, shrunk_.units, key, cluster_);
  } catch (const UserError& error) {
    out.reason = error.what();
    return out;
  }
  out.before.emplace_back();
  for (const int32_t unit : shrunk_.stands_for) {
    out.units.push_back(costs[static_cast<size_t>(unit)]);
    out.before.push_back(sum(out.before.back(), out.units.back()));
  }
  return out;
}

double Estimator::least_seconds(const Candidate& candidate) {
  const Table& base = table(key_of(candidate, candidate.recompute));
  if (!base.reason.empty()) {
    return 0;
  }
  const UnitCost all = between(base, 0, units_.size());
  return static_cast<double>(candidate.words.micro_batches) *
         (all.forward_seconds + all.backward_seconds) /
         static_cast<double>(candidate.words.pipeline);
}

Estimate Estimator::estimate(const Candidate& candidate, int64_t budget_bytes) {
  const Table& base = table(key_of(candidate, candidate.recompute));
  const Table& whole = candidate.may_mix
                           ? table(key_of(candidate, RecomputePolicy::Full))
                           : base;
  if (!base.reason.empty() || !whole.reason.empty()) {
    Estimate out;
    out.reason = base.reason.empty() ? whole.reason : base.reason;
    return out;
  }
  return Composition(candidate, units_, cluster_, budget_bytes, base, whole)
      .run();
}

}  // namespace weft
