// SPDX-License-Identifier: Apache-2.0
#include "ops/arithmetic.h"

#include "base/error.h"
#include "ops/call.h"
#include "ops/kernel.h"

#include <utility>

namespace weft {
namespace {

ValueId permute(NodeBuilder& builder, ValueId a, const Dims& order) {
  return builder.call("aten.permute", {{a}, to_arg(order)});
}

Dims inverse(const Dims& order) {
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return back;
}

}  // namespace

ValueId add(NodeBuilder& builder, ValueId a, ValueId b) {
  return builder.call("aten.add.Tensor", {{a}, {b}});
}

ValueId sub(NodeBuilder& builder, ValueId a, ValueId b) {
  return builder.call("aten.sub.Tensor", {{a}, {b}});
}

ValueId mul(NodeBuilder& builder, ValueId a, ValueId b) {
  return builder.call("aten.mul.Tensor", {{a}, {b}});
}

ValueId div(NodeBuilder& builder, ValueId a, ValueId b) {
  return builder.call("aten.div.Tensor", {{a}, {b}});
}

ValueId add(NodeBuilder& builder, ValueId a, double b) {
  return builder.call("aten.add.Scalar", {{a}, {b}});
}

ValueId mul(NodeBuilder& builder, ValueId a, double b) {
  return builder.call("aten.mul.Scalar", {{a}, {b}});
}

ValueId div(NodeBuilder& builder, ValueId a, double b) {
  return builder.call("aten.div.Scalar", {{a}, {b}});
}

ValueId replaced(NodeBuilder& builder, ValueId a, double mark, double instead) {
  const ValueId marked = builder.call("aten.eq.Scalar", {{a}, {mark}});
  return builder.call("aten.masked_fill.Scalar", {{a}, {marked}, {instead}});
}

ValueId apply(NodeBuilder& builder, std::string_view op, ValueId a) {
  return builder.call(op, {{a}});
}

ValueId sum_over(NodeBuilder& builder, ValueId a, const Dims& dims) {
  return dims.empty()
             ? a
             : builder.call(
                   "aten.sum.dim_IntList", {{a}, to_arg(dims), {true}});
}

ValueId max_over(NodeBuilder& builder, ValueId a, const Dims& dims) {
  return dims.empty() ? a
                      : builder.call("aten.amax", {{a}, to_arg(dims), {true}});
}

ValueId mean_over(NodeBuilder& builder, ValueId a, const Dims& dims) {
  const Dims sizes = builder.type(a).sizes;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= sizes.at(static_cast<size_t>(dim));
  }
  return div(builder, sum_over(builder, a, dims), static_cast<double>(count));
}

ValueId view(NodeBuilder& builder, ValueId a, const Dims& sizes) {
  return builder.type(a).sizes == sizes
             ? a
             : builder.call("aten.view", {{a}, to_arg(sizes)});
}

ValueId transpose(NodeBuilder& builder, ValueId a, int64_t dim, int64_t other) {
  return builder.call("aten.transpose.int", {{a}, {dim}, {other}});
}

ValueId row_major(NodeBuilder& builder, ValueId a) {
  return is_row_major(builder.type(a))
             ? a
             : builder.call(
                   "aten.clone",
                   {{a}},
                   {{"memory_format", {Symbol{"contiguous"}}}});
}

ValueId in_dtype(NodeBuilder& builder, ValueId a, DType dtype) {
  return builder.type(a).dtype == dtype
             ? a
             : builder.call("aten._to_copy", {{a}}, {{"dtype", {dtype}}});
}

ValueId widened(NodeBuilder& builder, ValueId a) {
  return in_dtype(builder, a, accumulate_type(builder.type(a).dtype));
}

ValueId in_type(NodeBuilder& builder, ValueId a, const TensorType& type) {
  a = in_dtype(builder, a, type.dtype);
  if (builder.type(a) == type) {
    return a;
  }
  WEFT_CHECK(
      builder.type(a).sizes == type.sizes && is_dense(type),
      "no copy of ",
      print(builder.type(a)),
      " is a ",
      print(type));
  if (is_row_major(type)) {
    return row_major(builder, a);
  }
  const std::vector<size_t> outer_first = memory_order(strides_of(type));
  const Dims order(outer_first.begin(), outer_first.end());
  a = row_major(builder, permute(builder, a, order));
  return permute(builder, a, inverse(order));
}

std::vector<ValueId> in_types_of(
    NodeBuilder& builder, const Node& node, std::vector<ValueId> values) {
  WEFT_CHECK(
      values.size() == node.results.size(), "not all results of ", node.op);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != ValueId::None) {
      values[i] = in_type(builder, values[i], builder.type(node.results[i]));
    }
  }
  return values;
}

}  // namespace weft
