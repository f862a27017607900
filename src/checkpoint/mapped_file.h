// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft {

// A whole file, mapped for reading. The bytes stay where they are when the
// object is moved. A file that another process cuts short while it is mapped
// ends this process, as with any mapping.
class MappedFile {
 public:
  // Throws UserError naming the path and the reason.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t size_bytes() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace weft
