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

// Lays operand 0 out as its type says where the node speaks of places in its
// memory (as_strided): what a kernel made may lie otherwise.
void place_operands(
    const Function& function,
    const Node& node,
    std::vector<at::Tensor>& operands);

// What was written in place in the recorded step stays as it lay there, as the
// types of the results say; the functional form of a node may lay it otherwise.
void place_results(
    const Node& node,
    const std::vector<TensorType>& types,
    std::vector<at::Tensor>& results);

// One node. `types` are those of its results, and `piece` what it makes of
// result 0: its own and the whole, or those of a piece, where the node was
// rewritten for that (ops/split.h).
std::vector<at::Tensor> evaluate_node(
    const Function& function,
    const Node& node,
    const std::vector<at::Tensor>& operands,
    const std::vector<TensorType>& types,
    const std::vector<Piece>& piece,
    const StepContext& context);

}  // namespace weft
