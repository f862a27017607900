// SPDX-License-Identifier: Apache-2.0
// Runs a Function node by node in its own order, as eager PyTorch would: the
// proof that a capture is right, and the way initial values are made.
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weft {

// `inputs` in the order of function.inputs (undefined where no node reads it).
// Gives the outputs in the order of function.outputs. Random nodes draw from
// the default CPU generator in order, a repeated `rng` number drawing the same
// numbers again, so that with equal seeds the results are eager's, bit for bit.
// Nodes of the optimizer phase are left out, and so are the outputs that they
// make (undefined tensors). A guard that fails is a UserError.
std::vector<at::Tensor> replay(
    const Function& function, const std::vector<at::Tensor>& inputs);

// The same run, giving for every node the bytes that its kernel took from the
// CPU allocator besides its results and gave back before it returned.
std::vector<int64_t> measure_scratch(
    const Function& function, const std::vector<at::Tensor>& inputs);

// The graph's constant as a tensor.
at::Tensor constant_tensor(const Graph& graph, const std::string& name);

}  // namespace weft
