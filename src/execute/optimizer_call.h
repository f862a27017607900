// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace weft {

// Operands in the order of weft::operands(node), results in that of
// node.results.
using Kernel =
    std::function<std::vector<at::Tensor>(c10::ArrayRef<at::Tensor>)>;

// True for the nodes that stand for a step of an optimizer (`weft.adamw`).
bool is_optimizer_node(const Node& node);

// Such a node as calls of PyTorch's fused kernels, functional as every node:
// parameter and state are copied first. Throws UserError for an optimizer that
// has no kernel here yet.
Kernel optimizer_call(const Function& function, const Node& node);

}  // namespace weft
