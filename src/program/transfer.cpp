// SPDX-License-Identifier: Apache-2.0
#include "program/transfer.h"

#include "base/error.h"
#include "graph/countable.h"
#include "ops/kernel.h"
#include "program/piece.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {
namespace {

std::string braces(const Axes& axes) { return cat("{", join(axes, ", "), "}"); }

void check_axes(TransferKind kind, const Axes& axes, const Mesh& mesh) {
  WEFT_CHECK_USER(!axes.empty(), "is given to ", name(kind), " over no axis");
  int before = -1;
  for (const std::string& axis : axes) {
    const int found = find_axis(mesh, axis);
    WEFT_CHECK_USER(
        found >= 0,
        "is given to ",
        name(kind),
        " over the axis '",
        axis,
        "', which is not on the mesh ",
        print(mesh));
    // The order of a sum's axes says nothing.
    WEFT_CHECK_USER(
        found > before || kind == TransferKind::AllReduce,
        "is given to ",
        name(kind),
        " over ",
        braces(axes),
        ", which is not the order of the mesh ",
        print(mesh));
    before = found;
  }
}

void check_dims(TransferKind kind, const TensorType& type, size_t dims) {
  WEFT_CHECK_USER(
      type.sizes.size() >= dims,
      "is ",
      print(type),
      ": ",
      name(kind),
      " needs ",
      dims,
      " dim(s)");
  WEFT_CHECK_USER(
      is_row_major(type),
      "is ",
      print(type),
      ": ",
      name(kind),
      " needs it row-major");
}

void take_partial(Layout& layout, const Axes& axes) {
  const size_t before = layout.partial.size();
  layout = without_partial(std::move(layout), axes);
  WEFT_CHECK_USER(
      layout.partial.size() + axes.size() == before,
      "is no partial sum over ",
      braces(axes));
}

// Takes the axes away from the end of dim 0, whose pieces are equal.
void take_split(Layout& layout, const Axes& axes) {
  Levels& levels = layout.dims.front();
  Axes split = axes_of(levels);
  const bool ends_so = levels.size() == 1 && levels.front().size == 0 &&
                       split.size() >= axes.size() &&
                       std::equal(axes.rbegin(), axes.rend(), split.rbegin());
  WEFT_CHECK_USER(
      ends_so,
      "lies at ",
      print(layout),
      ", and its dim 0 does not end with ",
      braces(axes));
  split.resize(split.size() - axes.size());
  levels = split_over(std::move(split));
}

// Puts the axes at the end of a dim, whose pieces are equal.
void add_split(Levels& levels, const Axes& axes) {
  Axes split = axes_of(levels);
  split.insert(split.end(), axes.begin(), axes.end());
  levels = split_over(std::move(split));
}

void shrink(Dims& sizes, size_t dim, int64_t count) {
  WEFT_CHECK_USER(
      sizes[dim] % count == 0,
      "has ",
      sizes[dim],
      " in dim ",
      dim,
      ", which does not divide into ",
      count,
      " equal pieces");
  sizes[dim] /= count;
}

}  // namespace

Moved after_transfer(
    TransferKind kind,
    const Axes& axes,
    const Moved& before,
    const Mesh& mesh) {
  Layout layout = before.layout;
  Dims sizes = before.type.sizes;
  if (!is_collective(kind)) {
    return before;
  }
  WEFT_CHECK_USER(
      layout.dims.size() == sizes.size(),
      "is ",
      print(before.type),
      " and lies at ",
      print(layout),
      ", which has another number of dims");
  check_axes(kind, axes, mesh);
  const int64_t count = ways(mesh, axes);
  WEFT_CHECK_USER(count > 0, "is split over no ranks: ", print(mesh));
  switch (kind) {
    case TransferKind::AllReduce:
      WEFT_CHECK_USER(
          is_dense(before.type),
          "is ",
          print(before.type),
          ": all_reduce needs it without gaps");
      take_partial(layout, axes);
      return {before.type, std::move(layout)};
    case TransferKind::AllGather:
      check_dims(kind, before.type, 1);
      take_split(layout, axes);
      WEFT_CHECK_USER(
          !__builtin_mul_overflow(sizes[0], count, &sizes[0]) &&
              is_countable(before.type.dtype, sizes),
          "is ",
          print(before.type),
          ", and of all ",
          count,
          " pieces 64 bits cannot count the bytes");
      break;
    case TransferKind::ReduceScatter:
      check_dims(kind, before.type, 1);
      take_partial(layout, axes);
      add_split(layout.dims[0], axes);
      shrink(sizes, 0, count);
      break;
    case TransferKind::AllToAll:
      check_dims(kind, before.type, 2);
      WEFT_CHECK_USER(
          sizes[0] == 1,
          "is ",
          print(before.type),
          ": all_to_all needs size 1 in dim 0");
      take_split(layout, axes);
      add_split(layout.dims[1], axes);
      sizes[0] = count;
      shrink(sizes, 1, count);
      break;
    case TransferKind::Send:
    case TransferKind::Receive:
    case TransferKind::Copy:
      break;
  }
  return {make_type(before.type.dtype, std::move(sizes)), std::move(layout)};
}

int64_t collective_bytes(
    TransferKind kind,
    int64_t ranks,
    int64_t operand_bytes,
    int64_t result_bytes) {
  switch (kind) {
    case TransferKind::AllReduce:
      return 2 * operand_bytes * (ranks - 1) / ranks;
    case TransferKind::AllGather:
      return operand_bytes * (ranks - 1);
    case TransferKind::ReduceScatter:
      return result_bytes * (ranks - 1);
    case TransferKind::AllToAll:
      return operand_bytes / ranks * (ranks - 1);
    case TransferKind::Send:
    case TransferKind::Receive:
    case TransferKind::Copy:
      break;
  }
  WEFT_CHECK(false, name(kind), " is no collective");
}

int64_t wire_bytes(const Mesh& mesh, const Block& block, const Start& start) {
  const auto bytes_of = [&block](const std::vector<ValueId>& values) {
    int64_t bytes = 0;
    for (const ValueId value : values) {
      bytes += dense_bytes(block.function[value].type);
    }
    return bytes;
  };
  if (is_collective(start.kind)) {
    return collective_bytes(
        start.kind,
        ways(mesh, start.axes),
        bytes_of(start.operands),
        bytes_of(start.results));
  }
  return start.kind == TransferKind::Receive ? bytes_of(start.results) : 0;
}

std::vector<WireBytes> wire_bytes_by_kind(
    const Program& program, int64_t rank) {
  const Block& block = block_of(program, rank);
  const Team team = team_of(program, rank);
  std::map<std::pair<TransferKind, Axes>, int64_t> sums;
  for (const Instruction& instruction : block.instructions) {
    if (const auto* start = std::get_if<Start>(&instruction)) {
      const int64_t bytes = wire_bytes(team.mesh, block, *start);
      if (bytes > 0) {
        sums[{start->kind, start->axes}] += bytes;
      }
    }
  }
  std::vector<WireBytes> out;
  for (const auto& [key, bytes] : sums) {
    out.push_back({key.first, key.second, bytes});
  }
  return out;
}

int64_t wire_bytes(const Program& program, int64_t rank, TransferKind kind) {
  int64_t sum = 0;
  for (const WireBytes& one : wire_bytes_by_kind(program, rank)) {
    sum += one.kind == kind ? one.bytes : 0;
  }
  return sum;
}

int64_t wire_bytes(const Program& program, int64_t rank) {
  int64_t sum = 0;
  for (const WireBytes& one : wire_bytes_by_kind(program, rank)) {
    sum += one.bytes;
  }
  return sum;
}

}  // namespace weft
