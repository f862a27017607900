// SPDX-License-Identifier: Apache-2.0
// The numbers of random nodes, by the kind of distribution: what each operator
// makes of counted uniform and normal numbers.
#pragma once

#include "execute/counter_random.h"
#include "graph/graph.h"
#include "ops/op_def.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

// One step's draw of a node.
struct RandomDraw {
  const Node& node;
  const std::vector<at::Tensor>& operands;
  // Row-major ones to be written.
  const std::vector<at::Tensor>& results;
  const std::vector<Piece>& piece;
  RandomStream stream;
};

using DrawFunction = void (*)(const RandomDraw&);

// nullptr for an operator that is not made of counted numbers.
DrawFunction find_draw(const Node& node);

// Row-major tensors of a piece's sizes: numbers in [0, 1), and normal ones;
// f64 when that is the type of `like`, else f32 (with no more digits than the
// type of `like` has).
at::Tensor counted_uniform(
    const RandomStream& stream,
    const std::vector<Piece>& piece,
    at::ScalarType like);
at::Tensor counted_normal(
    const RandomStream& stream,
    const std::vector<Piece>& piece,
    at::ScalarType like);

}  // namespace weft
