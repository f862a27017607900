// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/mapped_file.h"

#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace weft {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  WEFT_CHECK_USER(file >= 0, "cannot open ", path_, ": ", std::strerror(errno));
  struct stat status = {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    throw UserError(cat("cannot read ", path_, ": it is not a file"));
  }
  const auto size = static_cast<size_t>(status.st_size);
  // Nothing can be mapped of an empty file, and nothing needs to be.
  if (size == 0) {
    close(file);
    return;
  }
  void* start = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  const int reason = errno;
  close(file);
  WEFT_CHECK_USER(
      start != MAP_FAILED,
      "cannot map ",
      path_,
      " into memory: ",
      std::strerror(reason));
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace weft
