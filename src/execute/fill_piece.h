// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/kernel.h"
#include "graph/graph.h"
#include "ops/op_def.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

// Fills `into` with a piece of a value of a function that reads constants only,
// block by block, by as few elements of what it follows from as the rules of
// the op table allow. `box` has one piece a dim, and `into` their sizes.
void fill_piece(
    const Graph& graph,
    const Function& function,
    ValueId value,
    const std::vector<Piece>& box,
    const at::Tensor& into,
    const StepContext& context);

}  // namespace weft
