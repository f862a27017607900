// SPDX-License-Identifier: Apache-2.0
// For tests: a folder that goes away, the message of an error, bytes of
// numbers.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <vector>

namespace weft {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    WEFT_CHECK(mkdtemp(pattern.data()) != nullptr, pattern);
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return (std::filesystem::path(path_) / name).string();
  }

 private:
  std::string path_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The Python of the environment, or nothing.
inline std::string python_of_clone() {
  auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  while (folder.has_relative_path()) {
    if (std::filesystem::exists(folder / ".venv/bin/python")) {
      return (folder / ".venv/bin/python").string();
    }
    folder = folder.parent_path();
  }
  return "";
}

template <typename Call>
std::string user_error(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return values;
}

}  // namespace weft
