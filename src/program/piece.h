// SPDX-License-Identifier: Apache-2.0
// Which part of a whole value a rank holds.
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/tensor_type.h"
#include "ops/op_def.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Into how many pieces `axes` split a dim.
int64_t ways(const Mesh& mesh, const std::vector<std::string>& axes);

// What `rank` holds of a dim (or factor) of size `whole` that `axes` split,
// outermost first, into equal pieces.
Piece piece_of(
    const Mesh& mesh,
    const std::vector<std::string>& axes,
    int64_t whole,
    int64_t rank);

// The type of one rank's piece. Strides keep their order: what lies inside a
// dim shrinks with the dims that are split. Pieces must be of equal size.
TensorType local_type(
    const TensorType& whole, const Layout& layout, const Mesh& mesh);

// The sizes of the whole value, from one rank's piece.
Dims whole_sizes(
    const TensorType& local, const Layout& layout, const Mesh& mesh);

}  // namespace weft
