// SPDX-License-Identifier: Apache-2.0
#include "execute/tensor_piece.h"

#include "aten/types.h"
#include "program/piece.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

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

at::Tensor piece_of_tensor(
    const at::Tensor& whole,
    const Layout& layout,
    const Team& team,
    int64_t rank) {
  return piece_of_tensor(whole, layout, team.mesh, number_in(team, rank));
}

void put_piece(
    const at::Tensor& whole,
    const Layout& layout,
    const Team& team,
    int64_t rank,
    const at::Tensor& piece) {
  put_piece(whole, layout, team.mesh, number_in(team, rank), piece);
}

bool is_whole(const Layout& layout, const Mesh& mesh) {
  return std::all_of(
      layout.dims.begin(), layout.dims.end(), [&](const Levels& levels) {
        return ways(mesh, axes_of(levels)) == 1;
      });
}

at::Tensor gather_whole(
    Communicator& everybody, const at::Tensor& piece, const Holding& holding) {
  if (is_everywhere(holding)) {
    return piece;
  }
  const at::Tensor whole =
      at::empty(holding.whole.sizes, scalar_type_of(holding.whole.dtype));
  if (whole.numel() == 0) {
    return whole;
  }
  if (is_whole(holding.layout, holding.team.mesh)) {
    if (piece.defined()) {
      whole.copy_(piece);
    }
    everybody.broadcast(whole, holding.ranks.front())->wait();
    return whole;
  }
  // Pieces may differ in size: each has room for the largest, the first's.
  const int64_t room = element_count(
      local_type(holding.whole, holding.layout, holding.team.mesh, 0));
  const at::Tensor padded = at::zeros({room}, whole.options());
  if (piece.defined()) {
    padded.narrow(0, 0, piece.numel()).copy_(piece.reshape({-1}));
  }
  const at::Tensor pieces =
      at::empty({holding.all_ranks, room}, whole.options());
  everybody.all_gather(pieces, padded)->wait();
  for (const int64_t rank : holding.ranks) {
    const TensorType theirs = local_type(
        holding.whole,
        holding.layout,
        holding.team.mesh,
        number_in(holding.team, rank));
    const at::Tensor part =
        pieces.select(0, rank).narrow(0, 0, element_count(theirs));
    put_piece(
        whole, holding.layout, holding.team, rank, part.reshape(theirs.sizes));
  }
  return whole;
}

}  // namespace weft
