// SPDX-License-Identifier: Apache-2.0
// The types of views: where the elements lie is the operand's.
#pragma once

#include "ops/op_def.h"

#include <optional>

namespace weft {

// The type with other sizes over the same storage; nullopt where elements in
// row-major order do not lie so.
std::optional<TensorType> viewed(const TensorType& type, const Dims& sizes);

// (self, sizes), none where PyTorch has to say what is wrong.
std::vector<TensorType> view_types(const Function& function, const Node& node);
// (self, order)
std::vector<TensorType> permute_types(
    const Function& function, const Node& node);
// (self, dim, other)
std::vector<TensorType> transpose_types(
    const Function& function, const Node& node);
// (self, dim)
std::vector<TensorType> unsqueeze_types(
    const Function& function, const Node& node);

}  // namespace weft
