// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's index.json holds: which tensors there are, and which
// piece of which is where.
#pragma once

#include "checkpoint/box.h"
#include "graph/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr int64_t kCheckpointVersion = 1;
inline constexpr std::string_view kIndexFile = "index.json";

// A box of a tensor in one of the files.
struct StoredPiece {
  std::string file;
  Box box;
  // From the start of the file.
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  // XXH3, 64 bits, of the piece's bytes.
  uint64_t checksum = 0;

  bool operator==(const StoredPiece&) const = default;
};

struct StoredTensor {
  // Of the whole tensor; row-major.
  TensorType type;
  std::vector<StoredPiece> pieces;

  bool operator==(const StoredTensor&) const = default;
};

struct CheckpointIndex {
  // Names the model; a checkpoint of another model is refused by it.
  std::string fingerprint;
  int64_t step = 0;
  // JSON of the caller's: data position, schedule, seeds, loss scale.
  std::string state = "{}";
  // The size of every file.
  std::map<std::string, int64_t> files_bytes;
  std::map<std::string, StoredTensor> tensors;

  bool operator==(const CheckpointIndex&) const = default;
};

// The text carries a checksum of itself.
std::string print(const CheckpointIndex& index);
// Throws UserError: text that is no JSON or not an index, one that was changed
// after it was written, and one of another version. `source` names it.
CheckpointIndex parse_checkpoint_index(
    const std::string& text, const std::string& source);

// Adds the files and pieces of one rank's part. A box that is there already
// (a tensor that several ranks hold) is left out. Throws InternalError when
// the parts disagree on a type or their boxes overlap otherwise.
void add_part(CheckpointIndex& index, const CheckpointIndex& part);

// Every element of every tensor is in a piece; throws InternalError otherwise.
void check_covered(const CheckpointIndex& index);

uint64_t checksum_of(std::span<const std::byte> bytes);

}  // namespace weft
