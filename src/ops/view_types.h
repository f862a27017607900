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

// In view_part_types.cpp.
// (self)
std::vector<TensorType> same_types(const Function& function, const Node& node);
std::vector<TensorType> t_types(const Function& function, const Node& node);
// (self, dim, start, end, step)
std::vector<TensorType> slice_types(const Function& function, const Node& node);
// (self, dim, start, size)
std::vector<TensorType> narrow_types(
    const Function& function, const Node& node);
// (self, dim, index)
std::vector<TensorType> select_types(
    const Function& function, const Node& node);
// (self, dim)
std::vector<TensorType> unbind_types(
    const Function& function, const Node& node);
// (self, offset, dim, other)
std::vector<TensorType> diagonal_types(
    const Function& function, const Node& node);
// (self, dim, size, step)
std::vector<TensorType> unfold_types(
    const Function& function, const Node& node);
// (self, size, sizes or count of the parts, dim)
std::vector<TensorType> split_types(const Function& function, const Node& node);
// (self, dims)
std::vector<TensorType> squeeze_types(
    const Function& function, const Node& node);
// (self, sizes)
std::vector<TensorType> expand_types(
    const Function& function, const Node& node);

}  // namespace weft
