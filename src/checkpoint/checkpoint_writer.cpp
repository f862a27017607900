// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_writer.h"

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/output_file.h"
#include "checkpoint/tensor_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <system_error>

namespace weft {
namespace {

namespace fs = std::filesystem;

int64_t total_bytes(const std::vector<TensorPiece>& pieces) {
  int64_t bytes = 0;
  for (const TensorPiece& piece : pieces) {
    bytes += std::ssize(piece.bytes);
  }
  return bytes;
}

[[noreturn]] void fail_save(
    const std::string& folder,
    int64_t step,
    int64_t needed_bytes,
    const std::string& reason) {
  // Free is counted after the removal: it is what the next attempt has.
  discard_partial(folder, step);
  throw UserError(cat(
      "cannot save the checkpoint of step ",
      step,
      " in ",
      folder,
      ": ",
      reason,
      ". It needs ",
      with_commas(needed_bytes),
      " bytes and ",
      with_commas(free_bytes(folder)),
      " are free. Make room or save elsewhere; earlier checkpoints are as they "
      "were"));
}

std::vector<TensorFileEntry> entries_of(
    const std::vector<TensorPiece>& pieces) {
  std::vector<TensorFileEntry> entries;
  std::map<std::string, int> seen;
  for (const TensorPiece& piece : pieces) {
    WEFT_CHECK(
        fits(piece.box, piece.whole.sizes) && piece.whole.strides.empty() &&
            std::ssize(piece.bytes) ==
                element_count(piece.box) * element_bytes(piece.whole.dtype),
        piece.name,
        ": ",
        piece.bytes.size(),
        " bytes for ",
        print(piece.box),
        " of ",
        print(piece.whole));
    // A rank may hold several pieces of one tensor; the index tells them apart
    // by offset, the names need only differ.
    const int earlier = seen[piece.name]++;
    entries.push_back(
        {earlier == 0 ? piece.name : cat(piece.name, "#", earlier),
         make_type(piece.whole.dtype, piece.box.size)});
  }
  return entries;
}

CheckpointIndex write_pieces(
    const OutputFolder& partial,
    int64_t step,
    int64_t rank,
    const std::vector<TensorPiece>& pieces) {
  const std::string name = cat("rank-", rank, ".safetensors");
  TensorFileWriter file(partial, name, entries_of(pieces));
  CheckpointIndex part;
  part.step = step;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const TensorPiece& piece = pieces[i];
    file.write(piece.bytes);
    StoredTensor& tensor = part.tensors[piece.name];
    tensor.type = piece.whole;
    tensor.pieces.push_back(
        {name,
         piece.box,
         file.offset_bytes(i),
         std::ssize(piece.bytes),
         checksum_of(piece.bytes)});
  }
  file.finish();
  part.files_bytes[name] = file.total_bytes();
  return part;
}

// Leftovers of a killed save of the same step by more ranks than there are now.
void remove_unnamed(const OutputFolder& partial, const CheckpointIndex& index) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(partial.fixed_path())) {
    if (!index.files_bytes.contains(entry.path().filename().string())) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

void check_shards(const OutputFolder& partial, const CheckpointIndex& index) {
  for (const auto& [name, bytes] : index.files_bytes) {
    const fs::path path = fs::path(partial.fixed_path()) / name;
    std::error_code error;
    const auto size = fs::file_size(path, error);
    WEFT_CHECK_USER(
        !fs::is_symlink(path), partial.path(), "/", name, " is a link");
    WEFT_CHECK_USER(
        !error && static_cast<int64_t>(size) == bytes,
        partial.path(),
        "/",
        name,
        error ? " is not there. All ranks must write to one folder: is it on a "
                "disk that they share?"
              : " has another size than its rank wrote");
  }
}

void rename_whole(const std::string& partial, const std::string& path) {
  if (std::rename(partial.c_str(), path.c_str()) == 0) {
    return;
  }
  WEFT_CHECK_USER(
      errno == ENOTEMPTY || errno == EEXIST,
      "cannot rename ",
      partial,
      " to ",
      path,
      ": ",
      std::strerror(errno));
  // The same step again. Exchanged, there is no moment without a whole one.
  if (renameat2(
          AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) ==
      0) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    return;
  }
  delete_checkpoint(path);
  fs::rename(partial, path);
}

}  // namespace

std::string checkpoint_path(const std::string& folder, int64_t step) {
  return (fs::path(folder) / cat("step-", step)).string();
}

std::string partial_path(const std::string& folder, int64_t step) {
  return cat(checkpoint_path(folder, step), kPartialSuffix);
}

void discard_partial(const std::string& folder, int64_t step) {
  std::error_code ignored;
  fs::remove_all(partial_path(folder, step), ignored);
}

std::string write_shard(
    const std::string& folder,
    int64_t step,
    int64_t rank,
    const std::vector<TensorPiece>& pieces) {
  try {
    const OutputFolder partial(partial_path(folder, step));
    return print(write_pieces(partial, step, rank, pieces));
  } catch (const UserError& error) {
    fail_save(folder, step, total_bytes(pieces), error.what());
  } catch (const fs::filesystem_error& error) {
    fail_save(folder, step, total_bytes(pieces), error.what());
  }
}

std::string publish(
    const std::string& folder,
    int64_t step,
    const std::vector<std::string>& parts,
    const PublishOptions& options) {
  CheckpointIndex index;
  index.fingerprint = options.fingerprint;
  index.step = step;
  index.state = options.state;
  for (const std::string& part : parts) {
    add_part(index, parse_checkpoint_index(part, "a rank's part of the index"));
  }
  check_covered(index);
  const std::string text = print(index);
  const std::string path = checkpoint_path(folder, step);
  try {
    const OutputFolder partial(partial_path(folder, step));
    check_shards(partial, index);
    remove_unnamed(partial, index);
    OutputFile file(partial, std::string(kIndexFile));
    file.write(text);
    file.sync_and_close();
    sync_folder(partial.fixed_path());
    rename_whole(partial.path(), path);
    sync_folder(folder);
  } catch (const UserError& error) {
    fail_save(folder, step, std::ssize(text), error.what());
  } catch (const fs::filesystem_error& error) {
    fail_save(folder, step, std::ssize(text), error.what());
  }
  clean_up(folder, step, options.keep);
  return path;
}

}  // namespace weft
