// SPDX-License-Identifier: Apache-2.0
// Between ATen's types and the Graph's.
#pragma once

#include "graph/tensor_type.h"

#include <ATen/core/Tensor.h>

#include <string_view>

namespace weft {

// Throws UserError for an element type that a Graph cannot hold (quantized).
DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

TensorType type_of(const at::Tensor& tensor);

// "contiguous", "preserve", "channels_last", "channels_last_3d".
std::string_view name(at::MemoryFormat format);
// And back; throws UserError.
at::MemoryFormat memory_format_of(std::string_view word);

}  // namespace weft
