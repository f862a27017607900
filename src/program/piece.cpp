// SPDX-License-Identifier: Apache-2.0
#include "program/piece.h"

#include "base/error.h"

#include <cstdint>

namespace weft {

int64_t ways(const Mesh& mesh, const std::vector<std::string>& axes) {
  int64_t count = 1;
  for (const std::string& axis : axes) {
    const int found = find_axis(mesh, axis);
    WEFT_CHECK(found >= 0, "no axis ", axis, " on ", print(mesh));
    count *= mesh.axes[static_cast<size_t>(found)].size;
  }
  return count;
}

Piece piece_of(
    const Mesh& mesh,
    const std::vector<std::string>& axes,
    int64_t whole,
    int64_t rank) {
  const std::vector<int64_t> where = coordinates(mesh, rank);
  Piece piece = {.start = 0, .size = whole, .whole = whole};
  for (const std::string& axis : axes) {
    const auto found = static_cast<size_t>(find_axis(mesh, axis));
    WEFT_CHECK(
        piece.size % mesh.axes[found].size == 0,
        piece.size,
        " does not divide by axis ",
        axis);
    piece.size /= mesh.axes[found].size;
    piece.start += where[found] * piece.size;
  }
  return piece;
}

TensorType local_type(
    const TensorType& whole, const Layout& layout, const Mesh& mesh) {
  Dims sizes = whole.sizes;
  Dims strides = whole.strides;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const int64_t count = ways(mesh, layout.dims[dim]);
    if (count == 1) {
      continue;
    }
    WEFT_CHECK(
        sizes[dim] % count == 0,
        print(whole),
        " does not divide as ",
        print(layout));
    sizes[dim] /= count;
    // An expanded dim takes no room, so nothing lies around it.
    const int64_t inner = strides.empty() || whole.strides[dim] == 0
                              ? INT64_MAX
                              : whole.strides[dim];
    for (size_t outer = 0; outer < strides.size(); ++outer) {
      if (whole.strides[outer] > inner) {
        WEFT_CHECK(
            strides[outer] % count == 0,
            print(whole),
            " does not divide as ",
            print(layout));
        strides[outer] /= count;
      }
    }
  }
  return make_type(whole.dtype, std::move(sizes), std::move(strides));
}

Dims whole_sizes(
    const TensorType& local, const Layout& layout, const Mesh& mesh) {
  Dims sizes = local.sizes;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    sizes[dim] *= ways(mesh, layout.dims[dim]);
  }
  return sizes;
}

}  // namespace weft
