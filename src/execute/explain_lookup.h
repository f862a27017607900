// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace weft {

// Why the kernel of a node that looks elements up has failed: ": 7 in the
// batch's input_ids ...", when a number is outside of the table; else "".
// `tensors` by value.
std::string explain_lookup(
    const Function& function,
    const Node& node,
    const std::vector<at::Tensor>& tensors);

}  // namespace weft
