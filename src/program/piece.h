// SPDX-License-Identifier: Apache-2.0
// Which part of a whole value a rank holds.
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/tensor_type.h"
#include "ops/op_def.h"
#include "program/program.h"

#include <cstdint>
#include <vector>

namespace weft {

// What `rank` holds of a dim (or factor) of size `whole` that `axes` split,
// outermost first. Pieces differ by at most one, the larger ones first; or are
// to each other as the axis's shares, rounded, and none is empty that need not
// be.
Piece piece_of(const Mesh& mesh, const Axes& axes, int64_t whole, int64_t rank);
// The size of the largest one.
int64_t largest_piece(const Mesh& mesh, const Axes& axes, int64_t whole);

// What `rank` holds of every level of a dim of size `whole`, slowest first; of
// a dim without levels, all of it.
std::vector<Piece> pieces_of(
    const Mesh& mesh, const Levels& levels, int64_t whole, int64_t rank);

// What `rank` holds of the dim, as contiguous ranges in their order.
std::vector<Piece> ranges_of(
    const Mesh& mesh, const Levels& levels, int64_t whole, int64_t rank);

// The type of one rank's piece. Strides keep their order: what lies inside a
// dim shrinks with the dims that are split.
TensorType local_type(
    const TensorType& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank);

// The sizes of the whole value, from one rank's piece.
Dims whole_sizes(
    const TensorType& local, const Layout& layout, const Mesh& mesh);

// What `rank` holds of a value of its block: one piece a level of every dim.
std::vector<Piece> level_pieces(
    const Program& program, const Block& block, ValueId value, int64_t rank);

}  // namespace weft
