// SPDX-License-Identifier: Apache-2.0
// A batch norm that trains takes its statistics from the whole batch. On a
// batch that is split it becomes sums that ranks add up, and what follows from
// them:
//
//   %y, %mean, %invstd, %rm.1, %rv.1 =
//   aten._native_batch_norm_legit_functional(
//       %x, %w, %b, %rm, %rv, true, 0.1, 1e-05)
//
//   %sums = weft.batch_norm_sums(%x)
//   %mean, %var, %invstd, %rm.1, %rv.1 = weft.batch_norm_statistics(
//       %sums, %rm, %rv, 4096, 0.1, 1e-05)
//   %y, %none.0, %none.1 = aten.native_batch_norm(
//       %x, %w, %b, %mean, %var, false, 0.1, 1e-05)
//
// and likewise backward. A plan that says `local batch_norm` keeps the
// statistics of each rank's own part, as DistributedDataParallel does: the node
// then only gets the option `local`.
#include "base/error.h"
#include "lower/pass.h"
#include "ops/call.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <utility>

namespace weft {
namespace {

class Splitting {
 public:
  explicit Splitting(Function& step) : step_(step) {}

  void run() {
    for (Node& node : step_.nodes) {
      const OpDef* def = find_op(node.op);
      if (def == nullptr || !def->batch_norm || has_one_sample(node, *def) ||
          !bool_arg(
              node,
              static_cast<size_t>(def->batch_norm->training_arg),
              false)) {
        nodes_.push_back(std::move(node));
      } else if (def->batch_norm->is_backward) {
        backward(std::move(node));
      } else {
        forward(
            std::move(node),
            static_cast<size_t>(def->batch_norm->training_arg));
      }
    }
    step_.nodes = std::move(nodes_);
    renumber(step_);
  }

 private:
  // Instance norm is a batch norm of one sample that has every sample's
  // channels: they are split, and each rank has all of its own.
  bool has_one_sample(const Node& node, const OpDef& def) const {
    const size_t input = def.batch_norm->is_backward ? 1 : 0;
    return step_[value_arg(node, input)].type.sizes.at(0) == 1;
  }

  // Of each channel, in the whole batch.
  static int64_t count_of(const TensorType& input) {
    return element_count(input) / input.sizes.at(1);
  }

  ValueId add(const Node& like, std::string_view suffix, TensorType type) {
    return add_value(
        step_, cat(step_[like.results.front()].name, suffix), std::move(type));
  }

  void call(
      const Node& like,
      std::string_view op,
      std::vector<Arg> args,
      std::vector<ValueId> results) {
    Node node;
    node.op = op;
    node.phase = like.phase;
    node.args = std::move(args);
    node.results = std::move(results);
    nodes_.push_back(std::move(node));
  }

  void forward(Node node, size_t training) {
    const ValueId input = value_arg(node, 0);
    const TensorType type = step_[input].type;
    const TensorType channel = step_[node.results.at(1)].type;
    const Arg momentum{number_arg(node, training + 1, 0.1)};
    const Arg eps{number_arg(node, training + 2, 1e-5)};
    const ValueId sums =
        add(node, ".sums", make_type(DType::F64, {2, type.sizes.at(1)}));
    call(node, "weft.batch_norm_sums", {{input}}, {sums});
    const ValueId variance = add(node, ".variance", channel);
    // Without running statistics, the new ones go nowhere.
    const bool has_running = node.results.size() == 5;
    Arg running_mean = has_running ? node.args.at(3) : node.args.at(1);
    Arg running_var = has_running ? node.args.at(4) : node.args.at(1);
    WEFT_CHECK_USER(
        std::holds_alternative<ValueId>(running_mean.data),
        "%",
        step_[node.results.front()].name,
        ": a batch norm with neither weight nor running statistics cannot be "
        "split; say `local batch_norm` in the plan");
    call(
        node,
        "weft.batch_norm_statistics",
        {{sums}, running_mean, running_var, {count_of(type)}, momentum, eps},
        {node.results[1],
         variance,
         node.results[2],
         has_running ? node.results[3] : add(node, ".unused_mean", channel),
         has_running ? node.results[4] : add(node, ".unused_var", channel)});
    call(
        node,
        "aten.native_batch_norm",
        {{input},
         node.args.at(1),
         node.args.at(2),
         {node.results[1]},
         {variance},
         {false},
         momentum,
         eps},
        {node.results[0],
         add(node, ".none", undefined_type()),
         add(node, ".none_too", undefined_type())});
  }

  // (grad, input, weight, running_mean, running_var, save_mean, save_invstd,
  //  train, eps, output_mask)
  void backward(Node node) {
    const ValueId input = value_arg(node, 1);
    const TensorType type = step_[input].type;
    const ValueId sums =
        add(node, ".sums", make_type(DType::F64, {2, type.sizes.at(1)}));
    call(
        node,
        "weft.batch_norm_backward_sums",
        {node.args[0], node.args[1], node.args[5]},
        {sums});
    if (flag_at(node, 9, 0)) {
      call(
          node,
          "weft.batch_norm_backward_input",
          {node.args[0],
           node.args[1],
           node.args[2],
           node.args[5],
           node.args[6],
           {sums},
           {count_of(type)}},
          {node.results[0]});
    }
    if (flag_at(node, 9, 1) || flag_at(node, 9, 2)) {
      const TensorType channel = step_[value_arg(node, 6)].type;
      call(
          node,
          "weft.batch_norm_backward_weights",
          {{sums}, node.args[6]},
          {flag_at(node, 9, 1) ? node.results[1]
                               : add(node, ".no_weight", channel),
           flag_at(node, 9, 2) ? node.results[2]
                               : add(node, ".no_bias", channel)});
    }
  }

  Function& step_;
  std::vector<Node> nodes_;
};

void mark_local(Function& step) {
  for (Node& node : step.nodes) {
    const OpDef* def = find_op(node.op);
    if (def != nullptr && def->batch_norm) {
      node.options.push_back({std::string(kLocalOption), {true}});
    }
  }
}

}  // namespace

void split_batch_norms(Lowering& lowering) {
  if (rank_count(lowering.mesh) == 1) {
    return;
  }
  Function& step = *find_function(lowering.graph, "step");
  if (lowering.plan.local_batch_norm) {
    mark_local(step);
  } else {
    Splitting(step).run();
  }
}

}  // namespace weft
