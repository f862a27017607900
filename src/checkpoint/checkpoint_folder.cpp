// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_folder.h"

#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft {
namespace {

namespace fs = std::filesystem;

std::optional<CheckpointName> parse_name(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  CheckpointName result;
  result.path = path.string();
  std::string_view rest = std::string_view(name).substr(kPrefix.size());
  const std::optional<int64_t> step = take_integer(rest);
  if (!step || *step < 0) {
    return std::nullopt;
  }
  result.step = *step;
  result.suffix = std::string(rest);
  if (!result.suffix.empty() && result.suffix != kPartialSuffix &&
      result.suffix != kDeletedSuffix) {
    return std::nullopt;
  }
  return result;
}

}  // namespace

std::vector<CheckpointName> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointName> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end;
       entry.increment(error)) {
    if (error) {
      break;
    }
    if (auto name = parse_name(entry->path()); name && entry->is_directory()) {
      names.push_back(*name);
    }
  }
  std::sort(
      names.begin(),
      names.end(),
      [](const CheckpointName& a, const CheckpointName& b) {
        return a.step != b.step ? a.step > b.step : a.suffix < b.suffix;
      });
  return names;
}

void delete_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return;
  }
  const std::string aside = cat(path, kDeletedSuffix);
  fs::remove_all(aside, ignored);
  std::error_code error;
  fs::rename(path, aside, error);
  if (!error) {
    fs::remove_all(aside, ignored);
  }
}

void clean_up(const std::string& folder, int64_t step, int64_t keep) {
  int64_t seen = 0;
  std::error_code ignored;
  for (const CheckpointName& name : list_checkpoints(folder)) {
    if (name.suffix == kDeletedSuffix ||
        (name.suffix == kPartialSuffix && name.step < step)) {
      fs::remove_all(name.path, ignored);
    } else if (name.suffix.empty() && keep > 0 && ++seen > keep) {
      delete_checkpoint(name.path);
    }
  }
}

}  // namespace weft
