// SPDX-License-Identifier: Apache-2.0
// Saving. A checkpoint is a folder `step-N` with one file a rank and an index.
// It is written as `step-N.partial` and gets its name by one rename when all of
// it is on the disk: whatever happens, a folder of that name is whole.
//
//   every rank:  part = write_shard(folder, step, rank, pieces)
//   the caller:  gathers the parts
//   one rank:    publish(folder, step, parts, options)
#pragma once

#include "checkpoint/box.h"
#include "graph/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft {

// What a rank holds of a tensor.
struct TensorPiece {
  std::string name;
  // Of the whole tensor; row-major.
  TensorType whole;
  Box box;
  // Of the box, row-major.
  std::span<const std::byte> bytes;
};

// "FOLDER/step-12", and while it is written "FOLDER/step-12.partial".
std::string checkpoint_path(const std::string& folder, int64_t step);
std::string partial_path(const std::string& folder, int64_t step);

// Writes `rank-K.safetensors` into the partial folder, making the folders that
// are missing, and syncs it. Returns this rank's part of the index, as text.
// A rank without pieces may leave out the call.
//
// Throws UserError when the disk is full or fails: the message names the
// folder, the bytes needed and those free. The partial folder is then removed,
// and earlier checkpoints are as they were.
std::string write_shard(
    const std::string& folder,
    int64_t step,
    int64_t rank,
    const std::vector<TensorPiece>& pieces);

struct PublishOptions {
  std::string fingerprint = {};
  // JSON; comes back from Checkpoint::state.
  std::string state = "{}";
  // How many checkpoints stay, the new one among them; 0 for all.
  int64_t keep = 0;
};

// Writes the index, syncs, renames, then deletes the oldest beyond `keep` and
// what killed saves of earlier steps left. A checkpoint of the same step is
// replaced in one exchange of names. Returns the new path.
//
// Throws UserError as above, also when a shard that a part names is not there;
// InternalError when the parts do not make up whole tensors.
std::string publish(
    const std::string& folder,
    int64_t step,
    const std::vector<std::string>& parts,
    const PublishOptions& options);

// Gives up a save that another rank failed at.
void discard_partial(const std::string& folder, int64_t step);

}  // namespace weft
