// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace weft {

// Numbers that tell different tensors apart, the same in every process: of the
// type, the sizes and the values. Strides do not count.
uint64_t hash_of(const at::Tensor& tensor);
// The same of so few of the elements that any step can afford it.
uint64_t sample_hash(const at::Tensor& tensor);

uint64_t hash_of(std::string_view text);
uint64_t joined_hash(uint64_t first, uint64_t second);

}  // namespace weft
