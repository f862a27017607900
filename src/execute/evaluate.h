// SPDX-License-Identifier: Apache-2.0
// Runs a Function node by node on one device, optimizer included, with the
// kernels of bind_kernel: what a program must compute, whatever its plan.
#pragma once

#include "execute/kernel.h"
#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

// `inputs` in the order of function.inputs (undefined where no node reads it);
// they are not changed. Gives the outputs in the order of function.outputs. A
// value is freed when its last reader has run. A guard that fails is a
// UserError.
std::vector<at::Tensor> evaluate(
    const Function& function,
    const std::vector<at::Tensor>& inputs,
    const StepContext& context);

}  // namespace weft
