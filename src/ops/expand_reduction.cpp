// SPDX-License-Identifier: Apache-2.0
#include "ops/arithmetic.h"
#include "ops/call.h"
#include "ops/expand.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

struct Reduced {
  ValueId input = ValueId::None;
  Dims dims;
};

// The operand in the type for sums, and the dims at an argument: none named,
// all.
Reduced reduced(NodeBuilder& builder, const Node& node, size_t dims_at) {
  const ValueId input = widened(builder, value_arg(node, 0));
  return {
      input,
      wrap_dims(
          dims_arg(node, dims_at),
          builder.type(input).sizes.size(),
          /*empty_means_all=*/true)};
}

bool is_real_tensor(NodeBuilder& builder, const Node& node) {
  const TensorType type = builder.type(value_arg(node, 0));
  return is_floating(type.dtype) && !type.sizes.empty();
}

// With the sizes of result i, which may lack the reduced dims.
ValueId sized(NodeBuilder& builder, const Node& node, size_t i, ValueId a) {
  return view(builder, a, builder.type(node.results.at(i)).sizes);
}

}  // namespace

// (input, dims, *, correction, keepdim) -> variance, and the mean where there
// are two results
Expanded expand_variance(NodeBuilder& builder, const Node& node) {
  if (!is_real_tensor(builder, node)) {
    return {};
  }
  const Reduced of = reduced(builder, node, 1);
  const ValueId mean = mean_over(builder, of.input, of.dims);
  const ValueId centered = sub(builder, of.input, mean);
  const ValueId total =
      sum_over(builder, mul(builder, centered, centered), of.dims);
  const int64_t elements =
      element_count(builder.type(of.input)) /
      std::max<int64_t>(element_count(builder.type(total)), 1);
  const auto count = static_cast<double>(elements);
  ValueId spread =
      div(builder,
          total,
          std::max(0.0, count - number_option(node, "correction", 1)));
  if (node.op.starts_with("aten.std")) {
    spread = apply(builder, "aten.sqrt", spread);
  }
  Expanded results = {sized(builder, node, 0, spread)};
  if (node.results.size() == 2) {
    results.push_back(sized(builder, node, 1, mean));
  }
  return in_types_of(builder, node, results);
}

// (input, dims, keepdim)
Expanded expand_logsumexp(NodeBuilder& builder, const Node& node) {
  if (!is_real_tensor(builder, node)) {
    return {};
  }
  const Reduced of = reduced(builder, node, 1);
  const ValueId highest = max_over(builder, of.input, of.dims);
  // Less an infinite maximum, all would be nan.
  const ValueId shift = builder.call(
      "aten.masked_fill.Scalar",
      {{highest}, {apply(builder, "aten.isinf", highest)}, {0.0}});
  const ValueId total = sum_over(
      builder,
      apply(builder, "aten.exp", sub(builder, of.input, shift)),
      of.dims);
  const ValueId sum = add(builder, apply(builder, "aten.log", total), shift);
  return in_types_of(builder, node, {sized(builder, node, 0, sum)});
}

// (input, *, dim, keepdim) -> (smallest, largest)
Expanded expand_aminmax(NodeBuilder& builder, const Node& node) {
  const ValueId input = value_arg(node, 0);
  const size_t ndim = builder.type(input).sizes.size();
  if (ndim == 0) {
    return {};
  }
  Dims dims;
  if (find_option(node, "dim") != nullptr) {
    dims = {wrap_dim(int_option(node, "dim", 0), ndim)};
  }
  const Arg keep = {bool_option(node, "keepdim", false)};
  const ValueId least =
      builder.call("aten.amin", {{input}, to_arg(dims), keep});
  const ValueId most = builder.call("aten.amax", {{input}, to_arg(dims), keep});
  return in_types_of(builder, node, {least, most});
}

// (input, order, dims, keepdim), of an order without a way to join norms
Expanded expand_vector_norm(NodeBuilder& builder, const Node& node) {
  const double order = number_arg(node, 1, 2);
  const bool joins =
      order == 0 || order == 1 || order == 2 || std::isinf(order);
  if (joins || !is_real_tensor(builder, node) ||
      find_option(node, "dtype") != nullptr) {
    return {};
  }
  const Reduced of = reduced(builder, node, 2);
  const ValueId size = apply(builder, "aten.abs", of.input);
  const ValueId powers =
      builder.call("aten.pow.Tensor_Scalar", {{size}, {order}});
  const ValueId total = sum_over(builder, powers, of.dims);
  const ValueId norm =
      builder.call("aten.pow.Tensor_Scalar", {{total}, {1 / order}});
  return in_types_of(builder, node, {sized(builder, node, 0, norm)});
}

}  // namespace weft
