// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// A folder that goes away with everything in it; where its process was killed,
// when the next one is made: of this user and machine, and only if the process
// is surely gone. Its name is not to be guessed, and only this user may look
// into it.
class TemporaryFolder {
 public:
  // Throws UserError when there is no room for one.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace weft
