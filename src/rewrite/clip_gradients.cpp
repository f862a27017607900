// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "rewrite/step_builder.h"
#include "rewrite/training.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

Node norm_of(ValueId value) {
  Node node;
  node.op = "aten.linalg_vector_norm";
  node.args = {{value}, {2.0}};
  return node;
}

// The type that several numbers of different types are stacked to.
DType joined_type(const Function& step, const std::vector<GradientUse>& uses) {
  DType type = step[uses.front().gradient].type.dtype;
  for (const GradientUse& use : uses) {
    const DType other = step[use.gradient].type.dtype;
    if (other != type) {
      type =
          type == DType::F64 || other == DType::F64 ? DType::F64 : DType::F32;
    }
  }
  return type;
}

// The norm of all gradients: that of their norms.
ValueId total_norm(
    Function& step,
    StepBuilder& builder,
    const std::vector<GradientUse>& uses) {
  const DType type = joined_type(step, uses);
  // One element type after the other, as torch does.
  std::vector<DType> types;
  for (const GradientUse& use : uses) {
    const DType own = step[use.gradient].type.dtype;
    if (std::find(types.begin(), types.end(), own) == types.end()) {
      types.push_back(own);
    }
  }
  Arg::List norms;
  for (const DType one : types) {
    for (const GradientUse& use : uses) {
      if (step[use.gradient].type.dtype == one) {
        norms.push_back({builder.add_for(
            norm_of(use.gradient), use.key, "norm", make_type(one, {}))});
      }
    }
  }
  const auto count = static_cast<int64_t>(norms.size());
  Node stack;
  stack.op = "aten.stack";
  stack.args = {{std::move(norms)}};
  const ValueId stacked =
      builder.add(std::move(stack), "", "norms", make_type(type, {count}));
  return builder.add(
      norm_of(stacked), "", "gradient_norm", make_type(type, {}));
}

}  // namespace

void clip_gradients(Graph& graph, double max_norm) {
  WEFT_CHECK_USER(
      max_norm > 0,
      "gradients cannot be clipped to the norm ",
      max_norm,
      ": give a number above 0");
  Function& step = step_with_optimizer(graph, "clipping gradients");
  for (const Output& output : step.outputs) {
    WEFT_CHECK_USER(
        output.kind != OutputKind::Extra || output.key != "gradient_norm",
        "graph @",
        graph.name,
        ": its gradients are clipped already");
  }
  StepBuilder builder(step);
  const std::vector<GradientUse> uses = gradient_uses(step);
  const ValueId norm = total_norm(step, builder, uses);
  const TensorType number = step[norm].type;
  const auto chain =
      [&](std::string op, Arg::List args, std::string_view name) {
        Node node;
        node.op = std::move(op);
        node.args = std::move(args);
        return builder.add(std::move(node), "", name, number);
      };
  // max_norm / (norm + 1e-6), as Python divides a number by a tensor.
  const ValueId shifted = chain("aten.add.Tensor", {{norm}, {1e-6}}, "shifted");
  const ValueId inverse = chain("aten.reciprocal", {{shifted}}, "inverse");
  const ValueId factor =
      chain("aten.mul.Tensor", {{inverse}, {max_norm}}, "factor");
  const ValueId clamped =
      chain("aten.clamp", {{factor}, {None{}}, {1.0}}, "clip_factor");
  for (const GradientUse& use : uses) {
    if (use.optimizer == NodeId::None) {
      continue;
    }
    Node node;
    node.op = "aten.mul.Tensor";
    node.args = {{use.gradient}, {clamped}};
    const TensorType type = step[use.gradient].type;
    step.nodes[index(use.optimizer)].args[1] = {
        builder.add_for(std::move(node), use.key, "clipped", type)};
  }
  step.outputs.push_back({OutputKind::Extra, "gradient_norm", norm});
  builder.finish();
}

}  // namespace weft
