// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"

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

// Writes the rank's part into the whole tensor.
void put_piece(
    const at::Tensor& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank,
    const at::Tensor& piece);

}  // namespace weft
