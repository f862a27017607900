// SPDX-License-Identifier: Apache-2.0
#include "program/piece.h"

#include "base/error.h"
#include "ops/split.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace weft {

namespace {

// Where point `point` of the axis begins in a dim of that size; the end of it
// for the point after the last.
int64_t first_of(const Axis& axis, int64_t size, int64_t point) {
  if (axis.shares.empty() || size <= axis.size) {
    const int64_t larger = size % axis.size;
    return point * (size / axis.size) + std::min(point, larger);
  }
  // One each, and the rest by shares.
  const int64_t all =
      std::accumulate(axis.shares.begin(), axis.shares.end(), int64_t{0});
  const int64_t before = std::accumulate(
      axis.shares.begin(), axis.shares.begin() + point, int64_t{0});
  if (size == all) {
    return before;
  }
  return point + (size - axis.size) * before / all;
}

}  // namespace

Piece piece_of(
    const Mesh& mesh, const Axes& axes, int64_t whole, int64_t rank) {
  const std::vector<int64_t> where = coordinates(mesh, rank);
  Piece piece = {.start = 0, .size = whole, .whole = whole};
  for (const std::string& name : axes) {
    const auto found = static_cast<size_t>(find_axis(mesh, name));
    const Axis& axis = mesh.axes[found];
    const int64_t first = first_of(axis, piece.size, where[found]);
    const int64_t end = first_of(axis, piece.size, where[found] + 1);
    piece.start += first;
    piece.size = end - first;
  }
  return piece;
}

int64_t largest_piece(const Mesh& mesh, const Axes& axes, int64_t whole) {
  int64_t largest = 0;
  for (const int64_t rank : group_of(mesh, axes, 0)) {
    largest = std::max(largest, piece_of(mesh, axes, whole, rank).size);
  }
  return largest;
}

std::vector<Piece> pieces_of(
    const Mesh& mesh, const Levels& levels, int64_t whole, int64_t rank) {
  if (levels.empty()) {
    return {{.start = 0, .size = whole, .whole = whole}};
  }
  int64_t known = 1;
  for (const Level& level : levels) {
    known *= std::max<int64_t>(level.size, 1);
  }
  std::vector<Piece> pieces;
  for (const Level& level : levels) {
    const int64_t size = level.size == 0 ? whole / known : level.size;
    pieces.push_back(piece_of(mesh, level.axes, size, rank));
  }
  return pieces;
}

std::vector<Piece> ranges_of(
    const Mesh& mesh, const Levels& levels, int64_t whole, int64_t rank) {
  const std::vector<Piece> pieces = pieces_of(mesh, levels, whole, rank);
  std::vector<Piece> ranges = {{.start = 0, .size = 1, .whole = whole}};
  int64_t inner = 1;
  for (size_t i = pieces.size(); i-- > 0;) {
    std::vector<Piece> longer;
    for (int64_t k = 0; k < pieces[i].size; ++k) {
      for (Piece range : ranges) {
        range.start += (pieces[i].start + k) * inner;
        if (!longer.empty() &&
            longer.back().start + longer.back().size == range.start) {
          longer.back().size += range.size;
        } else {
          longer.push_back(range);
        }
      }
    }
    ranges = std::move(longer);
    inner *= pieces[i].whole;
  }
  return ranges;
}

TensorType local_type(
    const TensorType& whole,
    const Layout& layout,
    const Mesh& mesh,
    int64_t rank) {
  Dims sizes = whole.sizes;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    sizes[dim] = 1;
    for (const Piece& piece :
         pieces_of(mesh, layout.dims[dim], whole.sizes[dim], rank)) {
      sizes[dim] *= piece.size;
    }
  }
  if (sizes == whole.sizes || whole.strides.empty()) {
    return make_type(whole.dtype, std::move(sizes), whole.strides);
  }
  // From the inside out: what lies around a dim moves closer with it. An
  // expanded dim takes no room.
  std::vector<size_t> order = memory_order(whole.strides);
  std::reverse(order.begin(), order.end());
  Dims strides = whole.strides;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t dim = order[i];
    for (size_t k = i + 1; k < order.size(); ++k) {
      const size_t outer = order[k];
      if (whole.strides[dim] == 0 || sizes[dim] == whole.sizes[dim] ||
          whole.strides[outer] <= whole.strides[dim]) {
        continue;
      }
      if (strides[outer] % whole.sizes[dim] != 0) {
        // A part of a longer dim, with gaps: its piece lies as a copy would.
        return with_sizes(whole, std::move(sizes));
      }
      strides[outer] = strides[outer] / whole.sizes[dim] * sizes[dim];
    }
  }
  return make_type(whole.dtype, std::move(sizes), std::move(strides));
}

Dims whole_sizes(
    const TensorType& local, const Layout& layout, const Mesh& mesh) {
  Dims sizes = local.sizes;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    const Levels& levels = layout.dims[dim];
    if (levels.size() == 1 && levels.front().size == 0) {
      sizes[dim] *= ways(mesh, levels.front().axes);
    } else if (!levels.empty()) {
      sizes[dim] = 1;
      for (const Level& level : levels) {
        WEFT_CHECK(level.size > 0, "a level without its size");
        sizes[dim] *= level.size;
      }
    }
  }
  return sizes;
}

std::vector<Piece> level_pieces(
    const Program& program, const Block& block, ValueId value, int64_t rank) {
  const Layout& layout = block.layouts[index(value)];
  const Team team = team_of(program, rank);
  const Mesh mesh = whole_mesh(team.mesh, program.time);
  const int64_t place =
      place_on(program.time, number_in(team, rank), block.parts[index(value)]);
  const Dims whole = whole_sizes(block.function[value].type, layout, mesh);
  std::vector<Piece> out;
  for (size_t dim = 0; dim < whole.size(); ++dim) {
    const std::vector<Piece> levels =
        pieces_of(mesh, layout.dims[dim], whole[dim], place);
    out.insert(out.end(), levels.begin(), levels.end());
  }
  return out;
}

}  // namespace weft
