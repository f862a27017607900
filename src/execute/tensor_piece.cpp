// SPDX-License-Identifier: Apache-2.0
#include "execute/tensor_piece.h"

#include "aten/types.h"
#include "program/piece.h"

#include <ATen/ops/empty.h>

#include <algorithm>

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

bool is_whole(const Layout& layout, const Mesh& mesh) {
  return std::all_of(
      layout.dims.begin(), layout.dims.end(), [&](const auto& axes) {
        return ways(mesh, axes) == 1;
      });
}

at::Tensor gather_whole(
    Communicator& everybody,
    const at::Tensor& piece,
    const Layout& layout,
    const Mesh& mesh) {
  if (is_whole(layout, mesh)) {
    return piece;
  }
  const int64_t ranks = rank_count(mesh);
  const at::Tensor mine = piece.contiguous();
  Dims sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), ranks);
  const at::Tensor pieces = at::empty(sizes, mine.options());
  everybody.all_gather(pieces, mine)->wait();
  const at::Tensor whole =
      at::empty(whole_sizes(type_of(mine), layout, mesh), mine.options());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    piece_of_tensor(whole, layout, mesh, rank).copy_(pieces.select(0, rank));
  }
  return whole;
}

}  // namespace weft
