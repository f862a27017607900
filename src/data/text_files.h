// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct TextFiles {
  // Sorted by path within every path that was given.
  std::vector<std::string> paths;
  int64_t binary = 0;
  int64_t unreadable = 0;
};

// The text files of files and folders, searched recursively. Left out and
// counted: files that cannot be read, and binary ones (a zero byte in the first
// 8 KiB). Left out silently: empty ones, those without one of `extensions`
// (where given), and in folders every name that starts with a dot, so that
// version control and our own caches are no text. Throws UserError when nothing
// is left.
TextFiles find_text_files(
    const std::vector<std::string>& paths,
    const std::vector<std::string>& extensions);

}  // namespace weft
