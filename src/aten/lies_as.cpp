// SPDX-License-Identifier: Apache-2.0
#include "aten/lies_as.h"

#include "aten/types.h"

namespace weft {

bool lies_as(const at::Tensor& tensor, const TensorType& type) {
  if (tensor.numel() == 0) {
    return element_count(type) == 0;
  }
  if (tensor.sizes().vec() != type.sizes ||
      tensor.scalar_type() != scalar_type_of(type.dtype)) {
    return false;
  }
  const Dims strides = strides_of(type);
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    if (type.sizes[dim] > 1 &&
        tensor.stride(static_cast<int64_t>(dim)) != strides[dim]) {
      return false;
    }
  }
  return true;
}

}  // namespace weft
