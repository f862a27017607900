// SPDX-License-Identifier: Apache-2.0
#include "execute/tensor_piece.h"

#include "program/piece.h"

namespace weft {

at::Tensor piece_of_tensor(
    at::Tensor whole, const Layout& layout, const Mesh& mesh, int64_t rank) {
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const auto d = static_cast<int64_t>(dim);
    const Piece mine = piece_of(mesh, layout.dims[dim], whole.size(d), rank);
    whole = whole.narrow(d, mine.start, mine.size);
  }
  return whole;
}

}  // namespace weft
