// SPDX-License-Identifier: Apache-2.0
// What a graph computes, whatever the order in which it was recorded.
//
// Ranks of one script may record independent calls in different orders: a
// Python set of strings has another order in every process. Their graphs then
// differ as texts and compute the same.
#pragma once

#include "graph/graph.h"

#include <cstdint>

namespace weft {

// Equal for graphs that compute the same outputs from the same inputs by the
// same calls, in any order of independent calls and under any names of values
// and constants. Constants count by their elements. The numbers that tell
// random nodes apart are left out, because they follow the order of recording.
uint64_t structure_hash(const Graph& graph);

}  // namespace weft
