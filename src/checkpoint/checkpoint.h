// SPDX-License-Identifier: Apache-2.0
// Loading. Any box of any tensor is read from whatever pieces hold it, so a
// checkpoint of any number of ranks loads on any other number.
#pragma once

#include "checkpoint/checkpoint_index.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/tensor_source.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft {

class Checkpoint final : public TensorSource {
 public:
  // Reads the index and looks at every file's size. Throws UserError: no or a
  // broken index, another version, a file that is missing or cut short.
  explicit Checkpoint(std::string path);

  const std::string& path() const override { return path_; }
  int64_t step() const { return index_.step; }
  const std::string& fingerprint() const { return index_.fingerprint; }
  // The JSON that was given to publish.
  const std::string& state() const { return index_.state; }

  // Throws UserError when the checkpoint is of another model.
  void expect_fingerprint(const std::string& fingerprint) const;

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override;
  const TensorType& type(const std::string& name) const override;

  // The checksum of every piece that is touched is verified, the first time.
  // Throws UserError naming tensor and file when it differs.
  void read(const std::string& name, const Box& box, std::span<std::byte> to)
      override;

  // Verifies all pieces. Throws as read.
  void verify();

 private:
  const StoredTensor& find(const std::string& name) const;
  std::span<const std::byte> verified_bytes(
      const std::string& name, const StoredPiece& piece);

  std::string path_;
  CheckpointIndex index_;
  std::mutex mutex_;
  std::map<std::string, MappedFile> files_;
  // File and offset of the pieces whose checksum is known to be right.
  std::set<std::pair<std::string, int64_t>> verified_;
};

struct SkippedCheckpoint {
  std::string path;
  std::string reason;
};

struct LastCheckpoint {
  // None when no whole one is there.
  std::optional<std::string> path;
  int64_t step = 0;
  // Newer ones that are not whole, newest first.
  std::vector<SkippedCheckpoint> skipped;
};

enum class Verify : uint8_t {
  // The index, and that every file has its size.
  Sizes,
  // Besides, the checksum of every piece: reads everything.
  Checksums,
};

// The whole checkpoint of the highest step in the folder.
LastCheckpoint find_last(
    const std::string& folder, Verify verify = Verify::Sizes);

}  // namespace weft
