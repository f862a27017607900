// SPDX-License-Identifier: Apache-2.0
#include "base/trusted_file.h"

#include "base/error.h"

#include <sys/stat.h>
#include <unistd.h>

namespace weft {

std::string distrust(const std::string& path, std::optional<int64_t> also) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    return "";
  }
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    return cat(path, " is neither a file nor a folder");
  }
  const bool is_ours = status.st_uid == ::geteuid() || status.st_uid == 0;
  if (!is_ours && also != static_cast<int64_t>(status.st_uid)) {
    return cat(path, " is user ", status.st_uid, "'s");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return cat(path, " may be written by others than its owner");
  }
  return "";
}

std::optional<int64_t> owner_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(status.st_uid);
}

}  // namespace weft
