// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>

namespace weft {

// How to run a step when nobody has said: values that are cheap to make again
// are, and each of `ranks` takes an equal part of the batch: every batch input
// whose first dim is that of the first one is split over `data`. A batch that
// does not divide is whole on every rank, which is as exact and no faster.
Plan data_parallel(const Graph& graph, int64_t ranks);

}  // namespace weft
