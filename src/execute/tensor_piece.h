// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

// The rank's part of a whole tensor, which it shares memory with.
at::Tensor piece_of_tensor(
    at::Tensor whole, const Layout& layout, const Mesh& mesh, int64_t rank);

}  // namespace weft
