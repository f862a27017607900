// SPDX-License-Identifier: Apache-2.0
// What a transfer makes of a value, and what it moves between ranks.
#pragma once

#include "program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// One rank's type, and which piece of the whole value it is.
struct Moved {
  TensorType type;
  Layout layout;
  bool operator==(const Moved&) const = default;
};

// The result that belongs to an operand like `before`, for every kind but
// Receive. Throws UserError with the reason when there is none: "is no partial
// sum over {data}", to be put behind the operand's name.
Moved after_transfer(
    TransferKind kind,
    const std::vector<std::string>& axes,
    const Moved& before,
    const Mesh& mesh);

// The bytes that one rank of a group of `ranks` takes from the others in a
// collective whose operands and results have so many bytes in all. Of an
// all_reduce, as a ring or a shared sum takes them.
int64_t collective_bytes(
    TransferKind kind,
    int64_t ranks,
    int64_t operand_bytes,
    int64_t result_bytes);

// The bytes that one rank takes from other ranks in a transfer. The gaps
// between the storages of an all_reduce are not counted.
int64_t wire_bytes(const Mesh& mesh, const Block& block, const Start& start);

// What one rank takes from the others in a step, by kind and axes.
struct WireBytes {
  TransferKind kind = TransferKind::AllReduce;
  std::vector<std::string> axes;
  int64_t bytes = 0;
  bool operator==(const WireBytes&) const = default;
};
// In the order of kinds, then axes.
std::vector<WireBytes> wire_bytes_by_kind(const Program& program, int64_t rank);
// The sums over axes and kinds.
int64_t wire_bytes(const Program& program, int64_t rank, TransferKind kind);
int64_t wire_bytes(const Program& program, int64_t rank);

}  // namespace weft
