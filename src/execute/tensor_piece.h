// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/communicator.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "program/holding.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

// The rank's part of a whole tensor. Shares memory with it unless the part of a
// dim is in several ranges.
at::Tensor piece_of_tensor(
    const at::Tensor& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank);

// Of a rank of the team.
at::Tensor piece_of_tensor(
    const at::Tensor& whole,
    const Layout& layout,
    const Team& team,
    int64_t rank);

// Writes the rank's part into the whole tensor.
void put_piece(
    const at::Tensor& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank,
    const at::Tensor& piece);
void put_piece(
    const at::Tensor& whole,
    const Layout& layout,
    const Team& team,
    int64_t rank,
    const at::Tensor& piece);

// Whether every rank has all of it.
bool is_whole(const Layout& layout, const Mesh& mesh);

// The whole tensor, from the `piece` of each rank that has one; it is undefined
// on the others. `piece` itself when all ranks have all of it. All ranks of
// `everybody`, which are those of the program, must call it.
at::Tensor gather_whole(
    Communicator& everybody, const at::Tensor& piece, const Holding& holding);

}  // namespace weft
