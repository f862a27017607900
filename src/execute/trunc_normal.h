// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

// A tensor like `self` filled from a normal distribution cut off outside
// [low, high]: the node `weft.trunc_normal`. Draws from the default CPU
// generator in the order of torch.nn.init.trunc_normal_, so equal seeds give
// its numbers.
at::Tensor trunc_normal(
    const at::Tensor& self,
    double mean,
    double deviation,
    double low,
    double high);

}  // namespace weft
