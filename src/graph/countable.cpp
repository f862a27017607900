// SPDX-License-Identifier: Apache-2.0
#include "graph/countable.h"

#include <algorithm>

namespace weft {

bool is_countable(DType dtype, const Dims& sizes) {
  int64_t bytes = element_bytes(dtype);
  return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) {
    return size >= 0 &&
           !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) &&
           bytes <= kMostTensorBytes;
  });
}

}  // namespace weft
