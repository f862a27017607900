// SPDX-License-Identifier: Apache-2.0
#include "search/compose.h"

#include "simulate/simulate.h"

#include <algorithm>

namespace weft {
namespace {

// Of a backward, without the gradients of weights.
constexpr double kInputGradientShare = 0.5;

// `through`: of a micro-batch through all stages, `slowest` of them through
// those of one position.
double bubble_seconds(const Parallel& words, double through, double slowest) {
  const int64_t chunks = stage_count(words) / words.pipeline;
  if (chunks > 1) {
    return slowest * static_cast<double>(words.pipeline - 1) /
           static_cast<double>(chunks);
  }
  return (through - slowest) *
         (words.schedule == "zb-h1" ? 1 - kInputGradientShare : 1);
}

class Composition {
 public:
  Composition(
      const Candidate& candidate,
      const StageLinks& links,
      const UnitTable& base)
      : words_(candidate.words),
        candidate_(candidate),
        links_(links),
        base_(base) {}

  Estimate run(const std::vector<Stage>& stages) const {
    Estimate out;
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
    const double bubble = bubble_seconds(words_, through, slowest);
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
    return out;
  }

 private:
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
    const double once =
        std::max({all - backward, std::min(last, all), share * all});
    if (words_.zero == 0) {
      return once;
    }
    // Pieces are added up as every micro-batch gives them, and all but the
    // first's are waited for where they are made.
    const double out =
        once +
        static_cast<double>(words_.micro_batches - 1) *
            exchange(TransferKind::ReduceScatter, stage.cost.summed_bytes);
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

  const Parallel& words_;
  const Candidate& candidate_;
  const StageLinks& links_;
  const UnitTable& base_;
};

}  // namespace

double least_seconds(const Parallel& words, double micro_batch_seconds) {
  const double slowest =
      micro_batch_seconds / static_cast<double>(words.pipeline);
  return static_cast<double>(words.micro_batches) * slowest +
         bubble_seconds(words, micro_batch_seconds, slowest);
}

Estimate compose(
    const Candidate& candidate,
    const StageLinks& links,
    const UnitTable& base,
    const std::vector<Stage>& stages) {
  return Composition(candidate, links, base).run(stages);
}

}  // namespace weft
