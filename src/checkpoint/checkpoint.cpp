// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"

#include <filesystem>

namespace weft {
namespace {

namespace fs = std::filesystem;

void check_file(const std::string& path, int64_t bytes) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  WEFT_CHECK_USER(
      !error,
      path,
      " is missing from its checkpoint. Put it back or use an earlier "
      "checkpoint");
  WEFT_CHECK_USER(
      static_cast<int64_t>(size) == bytes,
      path,
      " is cut short or altered: it has ",
      size,
      " bytes and was written with ",
      bytes,
      ". Use an earlier checkpoint");
}

}  // namespace

Checkpoint::Checkpoint(std::string path) : path_(std::move(path)) {
  const std::string index_path = (fs::path(path_) / kIndexFile).string();
  WEFT_CHECK_USER(
      fs::exists(index_path),
      path_,
      " is not a whole checkpoint: it has no ",
      kIndexFile);
  index_ = parse_checkpoint_index(read_file(index_path), index_path);
  for (const auto& [name, bytes] : index_.files_bytes) {
    const std::string file = (fs::path(path_) / name).string();
    check_file(file, bytes);
    files_.emplace(name, MappedFile(file));
  }
}

void Checkpoint::expect_fingerprint(const std::string& fingerprint) const {
  WEFT_CHECK_USER(
      fingerprint == index_.fingerprint,
      path_,
      " is a checkpoint of another model: its fingerprint is ",
      index_.fingerprint,
      ", this model's is ",
      fingerprint,
      ". Start from the model that was saved, or give another folder");
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : index_.tensors) {
    names.push_back(name);
  }
  return names;
}

bool Checkpoint::has(const std::string& name) const {
  return index_.tensors.contains(name);
}

const StoredTensor& Checkpoint::find(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  WEFT_CHECK_USER(
      found != index_.tensors.end(), path_, " has no tensor ", quote(name));
  return found->second;
}

const TensorType& Checkpoint::type(const std::string& name) const {
  return find(name).type;
}

std::span<const std::byte> Checkpoint::verified_bytes(
    const std::string& name, const StoredPiece& piece) {
  const MappedFile& file = files_.at(piece.file);
  const std::span<const std::byte> bytes = file.bytes().subspan(
      static_cast<size_t>(piece.offset_bytes),
      static_cast<size_t>(piece.size_bytes));
  const std::pair key(piece.file, piece.offset_bytes);
  {
    const std::lock_guard lock(mutex_);
    if (verified_.contains(key)) {
      return bytes;
    }
  }
  WEFT_CHECK_USER(
      checksum_of(bytes) == piece.checksum,
      file.path(),
      " was altered: the checksum of ",
      print(piece.box),
      " of tensor ",
      quote(name),
      " differs. Remove ",
      path_,
      " to go on from the checkpoint before it");
  const std::lock_guard lock(mutex_);
  verified_.insert(key);
  return bytes;
}

void Checkpoint::read(
    const std::string& name, const Box& box, std::span<std::byte> to) {
  const StoredTensor& tensor = find(name);
  const int64_t element = element_bytes(tensor.type.dtype);
  WEFT_CHECK(
      fits(box, tensor.type.sizes) &&
          std::ssize(to) == element_count(box) * element,
      to.size(),
      " bytes for ",
      print(box),
      " of ",
      name,
      " ",
      print(tensor.type));
  int64_t missing = element_count(box);
  for (const StoredPiece& piece : tensor.pieces) {
    const std::optional<Box> both = intersect(piece.box, box);
    if (!both) {
      continue;
    }
    copy_box(*both, piece.box, verified_bytes(name, piece), box, to, element);
    missing -= element_count(*both);
  }
  WEFT_CHECK_USER(
      missing == 0,
      path_,
      "/",
      kIndexFile,
      " is broken: ",
      missing,
      " elements of ",
      print(box),
      " of tensor ",
      quote(name),
      " are in no piece");
}

void Checkpoint::verify() {
  for (const auto& [name, tensor] : index_.tensors) {
    for (const StoredPiece& piece : tensor.pieces) {
      verified_bytes(name, piece);
    }
  }
}

LastCheckpoint find_last(const std::string& folder, Verify verify) {
  LastCheckpoint last;
  for (const CheckpointName& name : list_checkpoints(folder)) {
    if (!name.suffix.empty()) {
      last.skipped.push_back(
          {name.path,
           name.suffix == kPartialSuffix ? "its save did not finish"
                                         : "it was being deleted"});
      continue;
    }
    try {
      Checkpoint checkpoint(name.path);
      if (verify == Verify::Checksums) {
        checkpoint.verify();
      }
    } catch (const UserError& error) {
      last.skipped.push_back({name.path, error.what()});
      continue;
    }
    last.path = name.path;
    last.step = name.step;
    return last;
  }
  return last;
}

}  // namespace weft
