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
//
// Parts in time would wait for the forward of all parts. So there the labels
// are counted by themselves, which can be done before anything else:
//
//   %weight.labels = aten.ne.Scalar(%labels, -100)
//   %weight = aten.sum(%weight.labels, dtype=f32)
//
// and the one with which backward begins is not made of the loss.
#include "base/error.h"
#include "lower/pass.h"
#include "ops/call.h"
#include "ops/kernel.h"

#include <optional>
#include <utility>

namespace weft {
namespace {

// What the schema has for the label that is passed over.
constexpr int64_t kIgnored = -100;

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

// Appends the nodes that make %weight of the labels alone.
void count_labels(
    Function& step,
    Node& loss,
    const WeightedMean& mean,
    std::vector<Node>& nodes) {
  const auto arg = [&](int position) {
    return loss.args[static_cast<size_t>(position)];
  };
  const ValueId weight = loss.results[static_cast<size_t>(mean.weight_result)];
  const std::string name = step[weight].name;
  const ValueId labels = std::get<ValueId>(arg(mean.labels_arg).data);
  const ValueId kept = add_value(
      step,
      cat(name, ".labels"),
      make_type(DType::Bool, step[labels].type.sizes));
  Node compare;
  compare.op = "aten.ne.Scalar";
  compare.args = {
      {labels},
      {int_arg(loss, static_cast<size_t>(mean.ignored_arg), kIgnored)}};
  compare.results = {kept};
  compare.phase = loss.phase;
  nodes.push_back(std::move(compare));
  Node sum;
  sum.op = "aten.sum";
  sum.args = {{kept}};
  set_option(sum, "dtype", {step[weight].type.dtype});
  sum.results = {weight};
  sum.phase = loss.phase;
  nodes.push_back(std::move(sum));
  loss.results[static_cast<size_t>(mean.weight_result)] =
      add_value(step, cat(name, ".own"), step[weight].type);
}

// A scalar that has no more than its type of the loss becomes a constant.
void free_of_loss(const Function& step, Node& node) {
  const TensorType& type = step[node.results.front()].type;
  if (node.op == "aten.ones_like" && type.sizes.empty()) {
    node.op = "aten.ones";
    node.args = {to_arg(Dims{})};
    node.options.clear();
    set_option(node, "dtype", {type.dtype});
  }
}

bool has_class_weights(const Node& loss, const WeightedMean& mean) {
  const auto position = static_cast<size_t>(mean.weights_arg);
  return position < loss.args.size() &&
         std::holds_alternative<ValueId>(loss.args[position].data);
}

}  // namespace

void split_means(Lowering& lowering) {
  if (rank_count(lowering.mesh) == 1) {
    return;
  }
  Function& step = *find_function(lowering.graph, "step");
  std::vector<Node> nodes;
  for (Node& node : step.nodes) {
    if (rank_count(lowering.plan.time) > 1) {
      free_of_loss(step, node);
    }
    const std::optional<WeightedMean> split = weighted_mean(node);
    if (!split) {
      nodes.push_back(std::move(node));
      continue;
    }
    const ValueId weight =
        node.results[static_cast<size_t>(split->weight_result)];
    if (rank_count(lowering.plan.time) > 1 &&
        !has_class_weights(node, *split)) {
      count_labels(step, node, *split, nodes);
    }
    const ValueId mean = node.results.front();
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
