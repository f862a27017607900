// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>
#include <vector>

namespace weft {

// Who takes which part of the batch, along the first dim of its tensors. Parts
// are numbered in the order of the rows.
struct BatchShare {
  int64_t parts = 1;
  // By rank. Ranks that share the work on one part have the same.
  std::vector<int64_t> part_of_rank;
};

// By the axes that split the first tensor of the batch that is split. Throws
// UserError where stages have meshes of their own: they may cut the batch
// differently.
BatchShare batch_share(const Plan& plan, const Graph& graph);

}  // namespace weft
