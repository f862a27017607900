// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/communicator.h"
#include "graph/layout.h"
#include "graph/mesh.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

// The rank's part of a whole tensor, which it shares memory with.
at::Tensor piece_of_tensor(
    at::Tensor whole, const Layout& layout, const Mesh& mesh, int64_t rank);

// Whether every rank has all of it.
bool is_whole(const Layout& layout, const Mesh& mesh);

// The whole tensor, from the `piece` of each rank; `piece` itself when that is
// whole. All ranks of `everybody`, which are those of the mesh, must call it.
at::Tensor gather_whole(
    Communicator& everybody,
    const at::Tensor& piece,
    const Layout& layout,
    const Mesh& mesh);

}  // namespace weft
