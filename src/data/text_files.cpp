// SPDX-License-Identifier: Apache-2.0
#include "data/text_files.h"

#include "base/error.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace weft {
namespace {

namespace fs = std::filesystem;

enum class Content : uint8_t { Text, Empty, Binary, Unreadable };

Content content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(8192, '\0');
  if (!file.read(start.data(), std::ssize(start)) && !file.eof()) {
    return Content::Unreadable;
  }
  start.resize(static_cast<size_t>(file.gcount()));
  if (start.empty()) {
    return Content::Empty;
  }
  return start.find('\0') == std::string::npos ? Content::Text
                                               : Content::Binary;
}

bool has_extension(
    const fs::path& path, const std::vector<std::string>& extensions) {
  const std::string name = path.filename().string();
  return extensions.empty() ||
         std::any_of(
             extensions.begin(),
             extensions.end(),
             [&](const std::string& ending) { return name.ends_with(ending); });
}

std::vector<fs::path> files_below(
    const fs::path& folder, const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, options, error), end;
       entry != end;
       entry.increment(error)) {
    WEFT_CHECK_USER(!error, "cannot read ", folder, ": ", error.message());
    if (entry->path().filename().string().starts_with('.')) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (entry->is_regular_file(ignored) &&
        has_extension(entry->path(), extensions)) {
      files.push_back(entry->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TextFiles find_text_files(
    const std::vector<std::string>& paths,
    const std::vector<std::string>& extensions) {
  TextFiles found;
  for (const std::string& path : paths) {
    const std::vector<fs::path> files = fs::is_directory(path)
                                            ? files_below(path, extensions)
                                            : std::vector<fs::path>{path};
    for (const fs::path& file : files) {
      const Content content = content_of(file);
      found.binary += content == Content::Binary ? 1 : 0;
      found.unreadable += content == Content::Unreadable ? 1 : 0;
      if (content == Content::Text) {
        found.paths.push_back(file.string());
      }
    }
  }
  WEFT_CHECK_USER(
      !found.paths.empty(),
      "no text in ",
      join(paths, ", "),
      extensions.empty()
          ? std::string()
          : cat(" (files ending in ", join(extensions, ", "), ")"),
      ": ",
      found.binary,
      " binary files and ",
      found.unreadable,
      " that cannot be read were left out. Give text, .bin files of tokens, "
      ".npy or .safetensors");
  return found;
}

}  // namespace weft
