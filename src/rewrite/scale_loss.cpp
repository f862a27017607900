// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "rewrite/edit.h"
#include "rewrite/step_builder.h"
#include "rewrite/training.h"

#include <limits>
#include <utility>

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Node call(std::string op, Arg::List args) {
  Node node;
  node.op = std::move(op);
  node.args = std::move(args);
  return node;
}

Node cast(ValueId value, DType dtype) {
  Node node = call("aten._to_copy", {{value}});
  node.options = {{"dtype", {dtype}}};
  return node;
}

TensorType truths(Dims sizes) {
  return make_type(DType::Bool, std::move(sizes));
}

// 1 where not all elements of `magnitudes` are below infinity, else 0; what is
// not a number is not below it.
ValueId not_finite(
    Function& step,
    StepBuilder& builder,
    ValueId magnitudes,
    std::string_view name) {
  const Dims sizes = step[magnitudes].type.sizes;
  ValueId finite = builder.add(
      call("aten.lt.Scalar", {{magnitudes}, {kInfinity}}),
      "",
      "finite",
      truths(sizes));
  if (!sizes.empty()) {
    finite =
        builder.add(call("aten.all", {{finite}}), "", "all_finite", truths({}));
  }
  const ValueId bad = builder.add(
      call("aten.logical_not", {{finite}}), "", "not_finite", truths({}));
  return builder.add(cast(bad, DType::F32), "", name, one_number());
}

// The loss's gradient is the scale, in the loss's own type and shape.
void start_backward_from_scale(Function& step) {
  const Node& start = step.nodes[index(backward_start(step))];
  const TensorType type = step[start.results.front()].type;
  {
    StepBuilder builder(step);
    builder.add_input(InputKind::Scalar, "loss_scale", one_number());
    builder.finish();
  }
  const ValueId scale = step.inputs.back().value;
  const auto at = index(backward_start(step));
  if (type == one_number()) {
    Edit edit = start_edit(step);
    edit.removed[at] = true;
    edit.stand_in[index(step.nodes[at].results.front())] = scale;
    apply(edit, step);
    return;
  }
  Node& node = step.nodes[at];
  if (type.sizes.empty()) {
    node.op = "aten._to_copy";
    node.args = {{scale}};
    node.options = {{"dtype", {type.dtype}}};
    return;
  }
  // A loss of one element in some dims.
  Arg::List sizes;
  for (const int64_t size : type.sizes) {
    sizes.push_back({size});
  }
  WEFT_CHECK_USER(
      type.dtype == DType::F32,
      "the loss is ",
      print(type),
      ": a loss in dims can be scaled only in f32. Return it without dims");
  node.op = "aten.view";
  node.args = {{scale}, {std::move(sizes)}};
  node.options.clear();
}

}  // namespace

void scale_loss(Graph& graph) {
  Function& step = step_with_optimizer(graph, "scaling the loss");
  for (const Output& output : step.outputs) {
    WEFT_CHECK_USER(
        output.kind != OutputKind::Extra || output.key != "gradient_norm",
        "graph @",
        graph.name,
        ": its gradients are clipped already, and clipping comes after "
        "scaling. Scale the loss first");
  }
  start_backward_from_scale(step);
  StepBuilder builder(step);
  ValueId scale = ValueId::None;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Scalar && input.keys[0] == "loss_scale") {
      scale = input.value;
    }
  }
  // In f64 and back, as GradScaler inverts it.
  const TensorType wide_number = make_type(DType::F64, {});
  const ValueId wide =
      builder.add(cast(scale, DType::F64), "", "wide_scale", wide_number);
  const ValueId inverse = builder.add(
      call("aten.reciprocal", {{wide}}), "", "wide_inverse", wide_number);
  const ValueId factor =
      builder.add(cast(inverse, DType::F32), "", "inverse_scale", one_number());
  Arg::List largest;
  for (const GradientUse& use : gradient_uses(step)) {
    if (use.optimizer == NodeId::None) {
      continue;
    }
    const TensorType type = step[use.gradient].type;
    ValueId most = builder.add_for(
        call("aten.linalg_vector_norm", {{use.gradient}, {kInfinity}}),
        use.key,
        "largest",
        make_type(type.dtype, {}));
    if (type.dtype != DType::F32) {
      most = builder.add_for(
          cast(most, DType::F32), use.key, "largest", one_number());
    }
    largest.push_back({most});
    step.nodes[index(use.optimizer)].args[1] = {builder.add_for(
        call("aten.mul.Tensor", {{use.gradient}, {factor}}),
        use.key,
        "unscaled",
        type)};
  }
  const auto count = static_cast<int64_t>(largest.size());
  const ValueId stacked = builder.add(
      call("aten.stack", {{std::move(largest)}}),
      "",
      "largest",
      make_type(DType::F32, {count}));
  const ValueId found = not_finite(step, builder, stacked, "found_inf");
  builder.skip_by(found);
  step.outputs.push_back({OutputKind::Extra, "found_inf", found});
  builder.finish();
}

void skip_bad_loss(Graph& graph) {
  Function& step = step_with_optimizer(graph, "skipping a step");
  StepBuilder builder(step);
  const ValueId loss = loss_of(step);
  const ValueId magnitude = builder.add(
      call("aten.abs", {{loss}}), "", "loss_magnitude", step[loss].type);
  builder.skip_by(not_finite(step, builder, magnitude, "bad_loss"));
  builder.finish();
}

}  // namespace weft
