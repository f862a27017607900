// SPDX-License-Identifier: Apache-2.0
#include "ops/arithmetic.h"
#include "ops/call.h"
#include "ops/expand.h"

#include <limits>

namespace weft {
namespace {

// The dim at an argument; empty for a tensor without dims.
Dims dim_of(NodeBuilder& builder, const Node& node, size_t position) {
  const size_t ndim = builder.type(value_arg(node, 0)).sizes.size();
  return ndim == 0 ? Dims{} : Dims{wrap_dim(int_arg(node, position, -1), ndim)};
}

// The input less its maximum, so that exp stays finite.
ValueId centered(NodeBuilder& builder, ValueId input, const Dims& dim) {
  const ValueId wide = widened(builder, input);
  return sub(builder, wide, max_over(builder, wide, dim));
}

}  // namespace

// (input, dim, half_to_float)
Expanded expand_softmax(NodeBuilder& builder, const Node& node) {
  const Dims dim = dim_of(builder, node, 1);
  if (dim.empty()) {
    return {};
  }
  const ValueId powers =
      apply(builder, "aten.exp", centered(builder, value_arg(node, 0), dim));
  const ValueId total = sum_over(builder, powers, dim);
  return in_types_of(builder, node, {div(builder, powers, total)});
}

// (input, dim, *, dtype): a row of nothing but -inf gives zeros.
Expanded expand_safe_softmax(NodeBuilder& builder, const Node& node) {
  const Dims dim = dim_of(builder, node, 1);
  if (dim.empty()) {
    return {};
  }
  const DType dtype = builder.type(node.results.front()).dtype;
  const ValueId input =
      widened(builder, in_dtype(builder, value_arg(node, 0), dtype));
  const double nothing = -std::numeric_limits<double>::infinity();
  const ValueId highest =
      replaced(builder, max_over(builder, input, dim), nothing, 0);
  const ValueId powers =
      apply(builder, "aten.exp", sub(builder, input, highest));
  const ValueId total = replaced(builder, sum_over(builder, powers, dim), 0, 1);
  return in_types_of(builder, node, {div(builder, powers, total)});
}

// (grad, output, dim, dtype): y (g - sum(g y))
Expanded expand_softmax_backward(NodeBuilder& builder, const Node& node) {
  const Dims dim = dim_of(builder, node, 2);
  if (dim.empty()) {
    return {};
  }
  const ValueId grad = widened(builder, value_arg(node, 0));
  const ValueId output = widened(builder, value_arg(node, 1));
  const ValueId total = sum_over(builder, mul(builder, grad, output), dim);
  return in_types_of(
      builder, node, {mul(builder, output, sub(builder, grad, total))});
}

Expanded expand_log_softmax(NodeBuilder& builder, const Node& node) {
  const Dims dim = dim_of(builder, node, 1);
  if (dim.empty()) {
    return {};
  }
  const ValueId shifted = centered(builder, value_arg(node, 0), dim);
  const ValueId total =
      sum_over(builder, apply(builder, "aten.exp", shifted), dim);
  const ValueId log = apply(builder, "aten.log", total);
  return in_types_of(builder, node, {sub(builder, shifted, log)});
}

// g - exp(y) sum(g)
Expanded expand_log_softmax_backward(NodeBuilder& builder, const Node& node) {
  const Dims dim = dim_of(builder, node, 2);
  if (dim.empty()) {
    return {};
  }
  const ValueId grad = widened(builder, value_arg(node, 0));
  const ValueId output = widened(builder, value_arg(node, 1));
  const ValueId total = sum_over(builder, grad, dim);
  const ValueId share = mul(builder, apply(builder, "aten.exp", output), total);
  return in_types_of(builder, node, {sub(builder, grad, share)});
}

}  // namespace weft
