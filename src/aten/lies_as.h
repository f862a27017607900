// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/tensor_type.h"

#include <ATen/core/Tensor.h>

namespace weft {

// Whether the tensor has these sizes and this element type, and its elements
// lie so. Dims of size 1 may have any strides; an empty tensor says nothing.
bool lies_as(const at::Tensor& tensor, const TensorType& type);

}  // namespace weft
