// SPDX-License-Identifier: Apache-2.0
// Steps of optimizers as calls of ATen, in place.
#pragma once

#include "execute/optimizer_settings.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

// `tensors` are the parameter, the gradient and the states without the counter;
// all but the gradient are changed. `step` is the number of the step that is
// being made, from 1. The calls are those of torch.optim's plain path, so that
// any element type comes out as there.
void step_in_place(
    const OptimizerSettings& settings,
    double lr,
    double step,
    const std::vector<at::Tensor>& tensors);

// The same by PyTorch's fused kernel. Throws UserError where it has none.
void fused_step_in_place(
    const OptimizerSettings& settings,
    double lr,
    double step,
    const std::vector<at::Tensor>& tensors);

}  // namespace weft
