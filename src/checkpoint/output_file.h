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

// A file written from its start to its end. Every call throws UserError with
// the path and the system's reason: no space, a quota, a limit of file size
// (which raises no signal here), a folder that is not there.
class OutputFile {
 public:
  // Replaces what is there.
  explicit OutputFile(std::string path);
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

// Makes the names in the folder (a file made, a rename) survive. Throws
// UserError.
void sync_folder(const std::string& folder);

// Free for this user on the disk of the path; -1 when it cannot be told.
int64_t free_bytes(const std::string& path);

}  // namespace weft
