// SPDX-License-Identifier: Apache-2.0
// The names in a folder of checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr std::string_view kPartialSuffix = ".partial";
inline constexpr std::string_view kDeletedSuffix = ".deleted";

// `step-12`, `step-12.partial`, `step-12.deleted`.
struct CheckpointName {
  int64_t step = 0;
  // Empty, kPartialSuffix or kDeletedSuffix.
  std::string suffix;
  std::string path;
};

// Highest step first; names of other forms are left out. Empty when there is
// no such folder.
std::vector<CheckpointName> list_checkpoints(const std::string& folder);

// Renames aside to `.deleted`, then removes: no half-removed checkpoint is ever
// seen under its own name. Does nothing when it is not there; errors are left
// to the next clean-up.
void delete_checkpoint(const std::string& path);

// Deletes whole checkpoints beyond the newest `keep` (0 keeps all), and what
// saves that were killed left of steps before `step`.
void clean_up(const std::string& folder, int64_t step, int64_t keep);

}  // namespace weft
