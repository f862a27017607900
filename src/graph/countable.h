// SPDX-License-Identifier: Apache-2.0
// Whether sizes that a file gives are those of a tensor at all.
#pragma once

#include "graph/tensor_type.h"

namespace weft {

// Of one tensor in a text or a file. Sums over all values of a step, and over
// its ranks, then hold in 64 bits, and each is exact as a double.
inline constexpr int64_t kMostTensorBytes = int64_t{1} << 53;

// No size is negative, and a tensor of these sizes has at most that many bytes,
// also when its sizes of 0 were 1: so its strides and all of its parts are
// bounded.
bool is_countable(DType dtype, const Dims& sizes);

}  // namespace weft
