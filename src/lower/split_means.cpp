// SPDX-License-Identifier: Apache-2.0
// A mean over elements that count differently (labels that are padding count
// nothing) becomes a sum and a division:
//
//   %loss, %weight = aten.nll_loss_forward(%p, %labels, none, 1, -100)
//
//   %loss.total, %weight = aten.nll_loss_forward(%p, %labels, none, 2, -100)
//   %loss = aten.div.Tensor(%loss.total, %weight)
//
// On ranks with different padding the mean of their means is not the mean; the
// sums and the counts add up, and the division comes after. The backward node
// reads %weight, so it too waits for the count of all ranks.
#include "base/error.h"
#include "lower/pass.h"
#include "ops/kernel.h"

#include <optional>
#include <utility>

namespace weft {
namespace {

// Nullopt for a node that is no such mean.
std::optional<WeightedMean> weighted_mean(const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr || !def->weighted_mean) {
    return std::nullopt;
  }
  const auto position = static_cast<size_t>(def->weighted_mean->reduction_arg);
  if (position >= node.args.size() || node.args[position] != Arg{kMean}) {
    return std::nullopt;
  }
  return def->weighted_mean;
}

}  // namespace

void split_means(Lowering& lowering) {
  if (rank_count(lowering.plan.mesh) == 1) {
    return;
  }
  Function& step = *find_function(lowering.graph, "step");
  std::vector<Node> nodes;
  for (Node& node : step.nodes) {
    const std::optional<WeightedMean> split = weighted_mean(node);
    if (!split) {
      nodes.push_back(std::move(node));
      continue;
    }
    const ValueId mean = node.results.front();
    const ValueId weight =
        node.results[static_cast<size_t>(split->weight_result)];
    const ValueId total =
        add_value(step, cat(step[mean].name, ".total"), step[mean].type);
    Node division;
    division.op = "aten.div.Tensor";
    division.args = {{total}, {weight}};
    division.results = {mean};
    division.phase = node.phase;
    division.releases = std::exchange(node.releases, {});
    node.args[static_cast<size_t>(split->reduction_arg)] = Arg{kSum};
    node.results.front() = total;
    nodes.push_back(std::move(node));
    nodes.push_back(std::move(division));
  }
  step.nodes = std::move(nodes);
  renumber(step);
}

}  // namespace weft
