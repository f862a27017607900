// SPDX-License-Identifier: Apache-2.0
#include "cli/temporary_folder.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/process.h"

#include <cstdlib>
#include <fstream>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBegin = "weft.";
constexpr size_t kRandomLetters = 6;
// The process that made the folder.
constexpr const char* kOwner = "owner";
constexpr size_t kMostOwnerBytes = 4096;

bool is_ours(const fs::path& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == ::geteuid();
}

// Nobody else may have written it: the folder is its user's alone.
bool is_owner_gone(const fs::path& folder) {
  struct stat found = {};
  const fs::path path = folder / kOwner;
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) {
    // Just being made, or not by us.
    return false;
  }
  std::ifstream file(path);
  std::string text(kMostOwnerBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  try {
    const ProcessId owner = parse_process_id(text);
    // Of another machine, or before a restart of this one, nobody can tell.
    return owner.machine == this_process().machine &&
           process_state(owner) == ProcessState::Gone;
  } catch (const UserError&) {
    return false;
  }
}

void remove_left_behind(const fs::path& among) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator each(among, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with(kBegin) &&
        name.size() == kBegin.size() + kRandomLetters &&
        is_ours(each->path()) && is_owner_gone(each->path())) {
      left.push_back(each->path());
    }
  }
  for (const fs::path& folder : left) {
    fs::remove_all(folder, error);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  const fs::path among = fs::temp_directory_path();
  remove_left_behind(among);
  std::string pattern =
      (among / cat(kBegin, std::string(kRandomLetters, 'X'))).string();
  WEFT_CHECK_USER(
      ::mkdtemp(pattern.data()),
      "cannot make a temporary folder in ",
      among.string(),
      ": set TMPDIR to a folder with room");
  path_ = pattern;
  std::ofstream(path_ / kOwner) << print(this_process());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace weft
