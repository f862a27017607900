// SPDX-License-Identifier: Apache-2.0
// Calls of a text that a person may have edited, held against what is known of
// their operators.
#pragma once

#include "graph/graph.h"

namespace weft {

// Throws UserError that names the function, the node and what its operator
// misses: an operand, an argument of another kind, sizes that do not line up.
// Operators without an entry take anything. Asks every rule: for graphs that
// others wrote, since capture only writes calls that ran.
void verify_calls(const Function& function);
void verify_calls(const Graph& graph);

}  // namespace weft
