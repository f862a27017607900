// SPDX-License-Identifier: Apache-2.0
#include "execute/tensor_piece.h"

#include "program/piece.h"

namespace weft {
namespace {

// The part, with a dim for every level; shares memory with the whole.
at::Tensor unfolded_piece(
    at::Tensor tensor, const Layout& layout, const Mesh& mesh, int64_t rank) {
  int64_t dim = 0;
  for (const Levels& levels : layout.dims) {
    const std::vector<Piece> pieces =
        pieces_of(mesh, levels, tensor.size(dim), rank);
    std::vector<int64_t> sizes;
    for (const Piece& piece : pieces) {
      sizes.push_back(piece.whole);
    }
    tensor = sizes.size() == 1 ? tensor : tensor.unflatten(dim, sizes);
    for (const Piece& piece : pieces) {
      tensor = tensor.narrow(dim++, piece.start, piece.size);
    }
  }
  return tensor;
}

}  // namespace

at::Tensor piece_of_tensor(
    const at::Tensor& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank) {
  const at::Tensor piece = unfolded_piece(whole, layout, mesh, rank);
  if (piece.dim() == whole.dim()) {
    return piece;
  }
  std::vector<int64_t> sizes;
  int64_t dim = 0;
  for (const Levels& levels : layout.dims) {
    int64_t size = 1;
    for (size_t i = 0; i < std::max<size_t>(levels.size(), 1); ++i) {
      size *= piece.size(dim++);
    }
    sizes.push_back(size);
  }
  return piece.reshape(sizes);
}

void put_piece(
    const at::Tensor& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank,
    const at::Tensor& piece) {
  const at::Tensor into = unfolded_piece(whole, layout, mesh, rank);
  into.copy_(piece.reshape(into.sizes()));
}

}  // namespace weft
