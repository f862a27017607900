// SPDX-License-Identifier: Apache-2.0
// Writing files that must be whole: every error of the disk is seen, and what
// was synced survives a loss of power.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// A folder under a name that is this program's own choice, such as
// `step-12.partial`. What stands there is a folder and no link: who may write
// beside it cannot have files written or removed elsewhere.
class OutputFolder {
 public:
  // Makes it, with those above it, if need be. Throws UserError for a link, for
  // what is no folder, and for one of another user that everybody may write.
  explicit OutputFolder(std::string path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  // A way to this folder, whatever is put in its place meanwhile.
  std::string fixed_path() const;

 private:
  std::string path_;
  int fd_ = -1;
};

// A file written from its start to its end. Every call throws UserError with
// the path and the system's reason: no space, a quota, a limit of file size
// (which raises no signal here), a folder that is not there.
class OutputFile {
 public:
  // In place of what is there; other names of an earlier file keep its bytes.
  // A link is not followed: an error. A pipe or a device is written to.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFolder& folder, const std::string& name);
  // Closes; what was not synced may be lost.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  int64_t written_bytes() const { return written_bytes_; }

  // To the disk, then closed. Nothing may be written afterwards.
  void sync_and_close();

 private:
  [[noreturn]] void fail(int reason) const;

  std::string path_;
  int file_ = -1;
  int64_t written_bytes_ = 0;
};

// For a name that is this program's own choice: throws UserError when a link
// stands there.
void refuse_link(const std::string& path);

// Makes the names in the folder (a file made, a rename) survive. Throws
// UserError.
void sync_folder(const std::string& folder);

// Free for this user on the disk of the path; -1 when it cannot be told.
int64_t free_bytes(const std::string& path);

}  // namespace weft
