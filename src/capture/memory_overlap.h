// SPDX-License-Identifier: Apache-2.0
// Whether elements of two tensors are one place in memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

// Both show the same elements in the same order.
bool is_same_view(const at::Tensor& one, const at::Tensor& other);

// Exact for tensors in one storage, whatever their shapes and element types;
// tensors in different storages share nothing.
bool shares_elements(const at::Tensor& one, const at::Tensor& other);

}  // namespace weft
