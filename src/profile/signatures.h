// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <vector>

namespace weft {

// For every node, a number from 0 on that is equal for nodes with the same
// operator, attributes (but for `rng`), and types of operands and results. So
// they cost the same, whatever values they read.
std::vector<int32_t> signatures(const Function& function);

}  // namespace weft
