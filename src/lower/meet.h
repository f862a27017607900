// SPDX-License-Identifier: Apache-2.0
// Collectives between the points of one rank's time: what would travel is at
// hand, so sums are added up part by part, and pieces are joined or cut.
#pragma once

#include "lower/folded_block.h"

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

// A point of time that comes to a collective.
struct Comer {
  size_t part = 0;
  // What it brings, in the folded block.
  ValueId value = ValueId::None;
  // For which node of the step.
  NodeId node = NodeId::None;
  // What it takes away, as its own block has it.
  TensorType type;
  Layout layout;
};

// What each takes away from a collective over `axes`, which may have axes of
// the mesh among them: over these it still travels, once for all points.
// `in_backward`: by point of time, its place in the order of backward.
std::vector<ValueId> meet(
    FoldedBlock& folded,
    TransferKind kind,
    const Axes& axes,
    const std::vector<Comer>& comers,
    const std::vector<size_t>& in_backward);

}  // namespace weft
