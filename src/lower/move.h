// SPDX-License-Identifier: Apache-2.0
// How a value gets from one layout to another: which collectives, in which
// order, and what they cost. Emitted by emit_move.h.
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/tensor_type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

bool contains(const Axes& axes, const std::string& axis);

enum class MoveKind : uint8_t {
  Slice,          // each rank keeps its piece: nothing travels
  ReduceScatter,  // partial sums become pieces of the sum
  AllToAll,       // pieces of one level become pieces of another
  AllReduce,      // partial sums become the sum
  AllGather,      // pieces become the whole level
};

// A part of a dim, as fine as both layouts need it.
struct Cell {
  int dim = 0;
  int64_t size = 1;
  // The axes that split it before the step.
  Axes axes;
};

struct MoveStep {
  MoveKind kind = MoveKind::Slice;
  Axes axes;
  // The cell that is cut or joined by the axes; -1 for AllReduce.
  int cell = -1;
  // AllToAll: the cell that the axes leave.
  int from = -1;
  // All cells of the value, and its partial axes, as the step finds them.
  std::vector<Cell> cells;
  Axes partial;
};

// The steps in order; none when the layouts are the same pieces. `from` and
// `to` are canonical. `to` may only be a partial sum where `from` is.
std::vector<MoveStep> find_move(
    const Mesh& mesh,
    const TensorType& whole,
    const Layout& from,
    const Layout& to);

// Bytes that one rank takes from others for a step.
double step_bytes(
    const Mesh& mesh, const TensorType& whole, const MoveStep& step);

// The same of all its steps.
double move_bytes(
    const Mesh& mesh,
    const TensorType& whole,
    const Layout& from,
    const Layout& to);

}  // namespace weft
