// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

namespace weft {

// Whether what the node touches are places in the memory of operand 0
// (as_strided), counted from its first element: that operand must have the
// strides with which it was recorded, or those that a piece of it has
// (local_type).
bool reads_memory(const Node& node);

}  // namespace weft
