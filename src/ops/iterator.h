// SPDX-License-Identifier: Apache-2.0
// The result of a pointwise kernel: what at::TensorIterator makes of its
// operands. It is many times faster than PyTorch's meta kernels, which Python
// replaces by its own once it is loaded.
#pragma once

#include "ops/op_def.h"

#include <optional>
#include <vector>

namespace weft {

// The type in which two types meet: i64 and f16 in f16, f16 and bf16 in f32.
DType promote(DType a, DType b);

// The element type of an expression of the node's operands and of the numbers
// among its arguments: operands without dims and numbers count only where they
// are of a higher kind (a float beside integers).
DType promoted_type(const Function& function, const Node& node);

// Sizes broadcast; strides in the order of the operands' strides.
TensorType iterated_type(DType dtype, const std::vector<TensorType>& operands);

// One result, of all operands: promoted; or of that type.
TypesFunction iterated(std::optional<DType> dtype = std::nullopt);
// As iterated(), for kernels that look at their operands from the last to the
// first.
TypesFunction iterated_from_last();
// Promoted, integers as f32: a quotient.
TypesFunction iterated_real();
// Of the type of operand 0, integers as f32 where `real`.
TypesFunction iterated_as_first(bool real = false);

// f32 and f64 for their complex types, else the same.
DType real_type(DType dtype);

}  // namespace weft
