// SPDX-License-Identifier: Apache-2.0
#include "cli/temporary_folder.h"

#include "base/error.h"

#include <cstdlib>

namespace weft {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "weft.XXXXXX").string();
  WEFT_CHECK_USER(
      ::mkdtemp(pattern.data()),
      "cannot make a temporary folder in ",
      fs::temp_directory_path().string(),
      ": set TMPDIR to a folder with room");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace weft
