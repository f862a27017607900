// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/communicator.h"
#include "graph/graph.h"

#include <cstdint>

namespace weft {

// The graph that all ranks run, which is that of rank 0. Ranks may have
// recorded independent calls in different orders, but what they captured must
// compute the same: else their programs would wait for transfers that the
// others do not make, or add up what does not belong together. All ranks must
// call it. Throws UserError, the same on all ranks, with the first line that
// differs.
Graph agree_on_graph(
    Graph graph,
    World& world,
    Communicator& everybody,
    int64_t rank,
    int64_t ranks);

// Before ranks run or capture a step: all of them run the one whose graph has
// this hash, or all capture a new one, which is 0. All ranks must call it.
// Throws UserError, the same on all ranks.
void verify_same_step(
    uint64_t step, World& world, Communicator& everybody, int64_t ranks);

}  // namespace weft
