// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inner_path.h"

#include <algorithm>
#include <filesystem>

namespace weft {

bool is_inner_path(const std::string& path) {
  const std::filesystem::path words(path);
  return path.find('\0') == std::string::npos && words.is_relative() &&
         words.has_filename() && words.filename() != "." &&
         std::find(words.begin(), words.end(), "..") == words.end();
}

}  // namespace weft
