// SPDX-License-Identifier: Apache-2.0
// The few operators that expansions are written in, as functions of values.
// Each appends its call by the builder and gives the result.
#pragma once

#include "graph/graph.h"
#include "ops/node_builder.h"

#include <string_view>
#include <vector>

namespace weft {

ValueId add(NodeBuilder& builder, ValueId a, ValueId b);
ValueId sub(NodeBuilder& builder, ValueId a, ValueId b);
ValueId mul(NodeBuilder& builder, ValueId a, ValueId b);
ValueId div(NodeBuilder& builder, ValueId a, ValueId b);
ValueId add(NodeBuilder& builder, ValueId a, double b);
ValueId mul(NodeBuilder& builder, ValueId a, double b);
ValueId div(NodeBuilder& builder, ValueId a, double b);

// `instead` for every element of `a` that is `mark`.
ValueId replaced(NodeBuilder& builder, ValueId a, double mark, double instead);

// "aten.exp" and other ops of one operand.
ValueId apply(NodeBuilder& builder, std::string_view op, ValueId a);

// Over the dims, which stay with size 1; no dims, no change.
ValueId sum_over(NodeBuilder& builder, ValueId a, const Dims& dims);
ValueId max_over(NodeBuilder& builder, ValueId a, const Dims& dims);
// A sum divided by the number of elements that each sum has.
ValueId mean_over(NodeBuilder& builder, ValueId a, const Dims& dims);

ValueId view(NodeBuilder& builder, ValueId a, const Dims& sizes);
ValueId transpose(NodeBuilder& builder, ValueId a, int64_t dim, int64_t other);
// Row-major, copied where it is not.
ValueId row_major(NodeBuilder& builder, ValueId a);
ValueId in_dtype(NodeBuilder& builder, ValueId a, DType dtype);
// In the type that kernels add up in: f32 for half precision.
ValueId widened(NodeBuilder& builder, ValueId a);
// Of that element type and with those strides, copied where they are others.
ValueId in_type(NodeBuilder& builder, ValueId a, const TensorType& type);

// The values in the types of the node's results: what OpDef::expand gives.
// None stays None.
std::vector<ValueId> in_types_of(
    NodeBuilder& builder, const Node& node, std::vector<ValueId> values);

}  // namespace weft
