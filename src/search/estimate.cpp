// SPDX-License-Identifier: Apache-2.0
// A stage takes its units' time for every micro-batch, its memory is what its
// units keep for all micro-batches that are under way. Both grow with every
// unit. So for a limit of time, filling one stage after the other as far as
// time and memory allow finds a cut if there is one; and the least limit is
// found by halving.
#include "search/estimate.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "ops/kernel_memory.h"
#include "search/layout_plan.h"
#include "simulate/simulate.h"

#include <algorithm>
#include <chrono>
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
      .state_bytes = a.state_bytes + b.state_bytes,
      .summed_bytes = a.summed_bytes + b.summed_bytes,
      .given_bytes = a.given_bytes + b.given_bytes};
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
      .state_bytes = b.state_bytes - a.state_bytes,
      .summed_bytes = b.summed_bytes - a.summed_bytes,
      .given_bytes = b.given_bytes - a.given_bytes};
}

// Among ranks that share the parameters, and to the next stage.
struct Links {
  const Link* data = nullptr;
  const Link* next = nullptr;
};

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
      const Estimator::Cuts& cuts,
      const Links& links,
      int64_t budget,
      const Estimator::Table& base,
      const Estimator::Table& whole)
      : words_(candidate.words),
        candidate_(candidate),
        cuts_(cuts),
        links_(links),
        budget_(budget),
        base_(base),
        whole_(whole),
        units_(static_cast<int32_t>(cuts.at_or_before.size()) - 1),
        stages_(stage_count(candidate.words)),
        chunks_(stages_ / words_.pipeline) {}

  Estimate run() {
    Estimate out;
    if (cuts_.most_stages() < stages_) {
      out.reason =
          cat(stages_,
              " stages of a step that can be cut into ",
              cuts_.most_stages());
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

  // Of what is split over `data` from a level of ZeRO on, a rank's piece.
  int64_t piece(int64_t bytes, int level) const {
    return words_.zero >= level ? (bytes + words_.data - 1) / words_.data
                                : bytes;
  }

  // When most is kept, or at the end of the step if that takes more.
  MemoryParts memory(const UnitCost& cost, int64_t stage) const {
    const MemoryParts during = memory_during(cost, stage);
    const MemoryParts end = memory_at_end(cost);
    return total(end) > total(during) ? end : during;
  }

  MemoryParts memory_during(const UnitCost& cost, int64_t stage) const {
    MemoryParts parts;
    parts.parameter_bytes = piece(cost.parameter_bytes, 3);
    parts.state_bytes = piece(cost.state_bytes, 1);
    const bool is_summed_up = words_.micro_batches > 1 || words_.pipeline > 1;
    // Those that are updated at once, or while the next are made.
    const int64_t passing =
        cost.gradient_bytes - (is_summed_up ? cost.summed_bytes : 0);
    parts.gradient_bytes = std::min(
        passing, (words_.data > 1 ? 2 : 1) * base_.largest_gradient_bytes);
    if (is_summed_up) {
      // Whole, and when all are, cut into pieces.
      parts.gradient_bytes +=
          cost.summed_bytes +
          (words_.zero >= 2 ? piece(cost.summed_bytes, 2) : 0) +
          words_.micro_batches * cost.given_bytes;
    }
    if (words_.zero >= 3) {
      // One after the other; for several micro-batches once for all of them,
      // in forward and in backward.
      parts.temporary_bytes +=
          2 * (words_.micro_batches > 1 ? cost.parameter_bytes
                                        : base_.largest_parameter_bytes);
    }
    parts.kept_bytes = cost.kept_bytes * under_way(stage);
    parts.temporary_bytes += cost.temporary_bytes;
    return parts;
  }

  // Where ranks update pieces of parameters that each holds whole, these are
  // gathered beside the old ones.
  MemoryParts memory_at_end(const UnitCost& cost) const {
    MemoryParts parts;
    const bool has_pieces =
        words_.zero == 2 || (words_.zero == 1 && cost.state_bytes > 0);
    if (has_pieces && words_.data > 1) {
      parts.parameter_bytes = cost.parameter_bytes;
      parts.state_bytes = piece(cost.state_bytes, 1);
      parts.gradient_bytes = piece(cost.summed_bytes, 1);
      parts.temporary_bytes = cost.parameter_bytes;
    }
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

  // Where a stage ends at the latest that so many follow.
  int32_t latest_end(int64_t following) const {
    return cuts_
        .places[cuts_.places.size() - 1 - static_cast<size_t>(following)];
  }

  // The last place at which a stage may end, from `begin` on and no later than
  // `end`; -1: none.
  int32_t last_cut(int32_t begin, int32_t end) const {
    const int32_t cut = cuts_.at_or_before[static_cast<size_t>(end)];
    return cut > begin ? cut : -1;
  }

  // The longest stage from `begin` on that takes no longer than the limit; time
  // and memory grow with every unit.
  std::optional<Stage> longest(
      int32_t begin, int32_t most, int64_t number, double limit) const {
    // What is made again only adds to this.
    const std::vector<double>& seconds = base_.before_seconds;
    const auto beyond = std::upper_bound(
        seconds.begin() + begin + 1,
        seconds.begin() + most + 1,
        seconds[static_cast<size_t>(begin)] + limit);
    most = last_cut(begin, static_cast<int32_t>(beyond - seconds.begin()) - 1);
    std::optional<Stage> best;
    if (most < 0) {
      return best;
    }
    best = fitting(begin, most, number);
    if (best && best->seconds() <= limit) {
      return best;
    }
    best.reset();
    int32_t low = begin;
    int32_t high = most;
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
      const int64_t left = stages_ - number - 1;
      const std::optional<Stage> best =
          left > 0 ? longest(begin, latest_end(left), number, limit)
                   : fitting(begin, units_, number);
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
    double high = slowest(*best);
    double low = std::max(
        base_.slowest_seconds,
        base_.before_seconds.back() / static_cast<double>(stages_));
    for (int i = 0; i < kHalvings && high - low > kNearEnough * high; ++i) {
      const double middle = (low + high) / 2;
      std::optional<std::vector<Stage>> now = fill(middle);
      if (now) {
        high = slowest(*now);
        best = std::move(now);
      } else {
        low = middle;
      }
    }
    return best;
  }

  static double slowest(const std::vector<Stage>& stages) {
    double seconds = 0;
    for (const Stage& stage : stages) {
      seconds = std::max(seconds, stage.seconds());
    }
    return seconds;
  }

  // Of the places where a stage from `begin` on may end, up to `most`, which is
  // one of them, the one that has nearest to so many seconds before it.
  int32_t nearest_cut(int32_t begin, int32_t most, double wanted) const {
    const std::vector<double>& seconds = base_.before_seconds;
    const auto at = static_cast<int32_t>(
        std::lower_bound(
            seconds.begin() + begin + 1, seconds.begin() + most, wanted) -
        seconds.begin());
    const int32_t below = last_cut(begin, at - 1);
    int32_t above = at;
    while (last_cut(above - 1, above) < 0) {
      ++above;
    }
    const auto off = [&](int32_t end) {
      return std::abs(seconds[static_cast<size_t>(end)] - wanted);
    };
    return below < 0 || off(above) < off(below) ? above : below;
  }

  // By time alone; then of every position as few units are made again whole as
  // its memory asks for.
  std::optional<std::vector<Stage>> even_cut() const {
    const double share =
        base_.before_seconds.back() / static_cast<double>(stages_);
    std::vector<Stage> out;
    int32_t begin = 0;
    for (int64_t number = 0; number < stages_; ++number) {
      const int64_t left = stages_ - number - 1;
      const int32_t end = left == 0
                              ? units_
                              : nearest_cut(
                                    begin,
                                    latest_end(left),
                                    share * static_cast<double>(number + 1));
      out.push_back(stage_of(begin, end, 0, number));
      begin = end;
    }
    for (int64_t position = 0; position < words_.pipeline; ++position) {
      if (!make_fit(out, position)) {
        return std::nullopt;
      }
    }
    return out;
  }

  // As many units of each of the position's stages, whose memory is that of all
  // of them. False when nothing fits.
  bool make_fit(std::vector<Stage>& stages, int64_t position) const {
    const auto first = static_cast<size_t>(position);
    const auto step = static_cast<size_t>(words_.pipeline);
    const auto fits_with = [&](int32_t whole) {
      MemoryParts all;
      for (size_t i = first; i < stages.size(); i += step) {
        Stage& stage = stages[i];
        stage = stage_of(
            stage.begin,
            stage.end,
            std::min(whole, stage.end - stage.begin),
            static_cast<int64_t>(i));
        add(all, stage.memory);
      }
      for (size_t i = first; i < stages.size(); i += step) {
        stages[i].memory = all;
      }
      return total(all) <= budget_;
    };
    if (fits_with(0)) {
      return true;
    }
    int32_t low = 0;
    int32_t high = 0;
    for (size_t i = first; i < stages.size(); i += step) {
      high = std::max(high, stages[i].end - stages[i].begin);
    }
    if (!candidate_.may_mix || !fits_with(high)) {
      return false;
    }
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      (fits_with(middle) ? high : low) = middle;
    }
    return fits_with(high);
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
      int32_t end =
          number + 1 == stages_
              ? units_
              : std::max<int32_t>(
                    begin + 1,
                    static_cast<int32_t>(units_ * (number + 1) / stages_));
      end = std::min(end, units_);
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
    const int64_t once = bytes / ranks * (ranks - 1);
    return transfer_seconds(
        kind,
        ranks,
        kind == TransferKind::AllReduce ? 2 * once : once,
        *links_.data);
  }

  // Of a stage's gradients, by sums of them or by the rows that they are made
  // of.
  double exchange_gradients(const Stage& stage) const {
    const TransferKind kind = words_.zero == 0 ? TransferKind::AllReduce
                                               : TransferKind::ReduceScatter;
    const UnitCost& cost = stage.cost;
    return exchange(kind, cost.summed_bytes) +
           std::min(
               exchange(kind, cost.gradient_bytes - cost.summed_bytes),
               exchange(
                   TransferKind::AllGather,
                   words_.data * words_.micro_batches * cost.given_bytes));
  }

  // Of the pieces of parameters that ranks update. Without states, zero=1
  // leaves whole what a rank has the whole gradient of.
  double exchange_parameters(const Stage& stage) const {
    const UnitCost& cost = stage.cost;
    const bool is_whole = words_.zero == 1 && cost.state_bytes == 0;
    return exchange(
        TransferKind::AllGather,
        is_whole ? std::min(cost.parameter_bytes, cost.summed_bytes)
                 : cost.parameter_bytes);
  }

  // How long they take the wires of a rank in a step, at the least.
  double on_wire(const Stage& stage) const {
    double shared = exchange_gradients(stage);
    if (words_.zero > 0) {
      shared += exchange_parameters(stage);
    }
    return static_cast<double>(words_.micro_batches) *
               stage.cost.transfer_seconds +
           shared;
  }

  // What the exchanges of a stage's gradients and parameters add to a step.
  double exposed(const Stage& stage) const {
    // Of exchanges, what nothing can hide, for they take the device.
    const double share = words_.data > 1 ? links_.data->device_share : 0;
    const double backward = stage.cost.backward_seconds;
    const double forward = stage.cost.forward_seconds;
    const int64_t parameters = stage.cost.parameter_bytes;
    const double all = exchange_gradients(stage);
    // The last unit's are ready when backward ends.
    const double last = exchange(
        words_.zero == 0 ? TransferKind::AllReduce
                         : TransferKind::ReduceScatter,
        std::min(stage.cost.gradient_bytes, base_.largest_gradient_bytes));
    const double out =
        std::max({all - backward, std::min(last, all), share * all});
    if (words_.zero == 0) {
      return out;
    }
    const double gathered = exchange_parameters(stage);
    if (words_.zero < 3) {
      return out + gathered;
    }
    const double first = exchange(
        TransferKind::AllGather,
        std::min(parameters, base_.largest_parameter_bytes));
    return out + std::max({gathered - forward, first, share * gathered}) +
           std::max({gathered - backward, 0.0, share * gathered});
  }

  void compose(const std::vector<Stage>& stages, Estimate& out) const {
    const auto parts = static_cast<double>(words_.micro_batches);
    // By position: of a micro-batch through all its stages.
    std::vector<double> busy(static_cast<size_t>(words_.pipeline), 0);
    std::vector<double> again(busy.size(), 0);
    std::vector<double> transfers(busy.size(), 0);
    std::vector<double> exchanges(busy.size(), 0);
    std::vector<double> updates(busy.size(), 0);
    std::vector<double> wires(busy.size(), 0);
    double through = 0;
    double sent = 0;
    for (size_t i = 0; i < stages.size(); ++i) {
      const Stage& stage = stages[i];
      const size_t position = i % busy.size();
      busy[position] += stage.seconds();
      again[position] += stage.cost.again_seconds;
      transfers[position] += stage.cost.transfer_seconds;
      exchanges[position] += exposed(stage);
      wires[position] += on_wire(stage);
      updates[position] +=
          stage.cost.update_seconds /
          (words_.zero > 0 ? static_cast<double>(words_.data) : 1.0);
      through += stage.seconds();
      if (i + 1 < stages.size()) {
        sent +=
            2 *
            transfer_seconds(
                TransferKind::Send, 2, stage.cost.output_bytes, *links_.next);
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
    out.wire_seconds = *std::max_element(wires.begin(), wires.end());
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
  const Estimator::Cuts& cuts_;
  const Links& links_;
  const int64_t budget_;
  const Estimator::Table& base_;
  const Estimator::Table& whole_;
  const int32_t units_;
  const int64_t stages_;
  // Stages a position.
  const int64_t chunks_;
};

Estimator::Cuts cuts_of(const StepUnits& units) {
  Estimator::Cuts cuts;
  cuts.at_or_before.push_back(0);
  for (int32_t i = 1; i <= units.size(); ++i) {
    if (i == units.size() ||
        !units.units[static_cast<size_t>(i)].stage_pattern.empty()) {
      cuts.places.push_back(i);
    }
    cuts.at_or_before.push_back(cuts.places.empty() ? 0 : cuts.places.back());
  }
  return cuts;
}

}  // namespace

Estimator::Estimator(const Graph& graph, const Cluster& cluster)
    : graph_(graph),
      cluster_(cluster),
      units_(step_units(step_of(graph))),
      cuts_(cuts_of(units_)),
      shrunk_(shrink(graph, units_)),
      samples_(shrunk_.graph, shrunk_.units, cluster) {}

const Estimator::Table& Estimator::table(const SampleKey& key) {
  const auto [at, is_new] = tables_.try_emplace(key);
  Table& out = at->second;
  if (!is_new) {
    return out;
  }
  const CountedKernels rough;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<UnitCost> costs;
  try {
    costs =
        key.has_searched_layouts ? searched_costs(key) : samples_.costs(key);
  } catch (const UserError& error) {
    out.reason = error.what();
  }
  sample_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  if (!out.reason.empty()) {
    return out;
  }
  out.before.emplace_back();
  out.before_seconds.push_back(0);
  for (const int32_t number : shrunk_.stands_for) {
    const UnitCost& unit = costs[static_cast<size_t>(number)];
    const double seconds = unit.forward_seconds + unit.backward_seconds;
    out.before.push_back(sum(out.before.back(), unit));
    out.before_seconds.push_back(out.before_seconds.back() + seconds);
    out.largest_parameter_bytes =
        std::max(out.largest_parameter_bytes, unit.parameter_bytes);
    out.largest_gradient_bytes =
        std::max(out.largest_gradient_bytes, unit.gradient_bytes);
    out.slowest_seconds = std::max(out.slowest_seconds, seconds);
  }
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
  const Table& base = table(key_of(candidate, candidate.recompute));
  if (!base.reason.empty()) {
    return 0;
  }
  return static_cast<double>(candidate.words.micro_batches) *
         base.before_seconds.back() /
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
  const int64_t data = candidate.words.data;
  const int64_t stride = ranks_a_part(candidate);
  const Links links = {
      .data = &data_link(data, stride),
      .next = &data_link(candidate.words.pipeline > 1 ? 2 : 1, stride * data)};
  return Composition(candidate, cuts_, links, budget_bytes, base, whole).run();
}

}  // namespace weft
