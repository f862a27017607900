// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process allow it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// A limit of one control group, and how much of it is taken.
struct GroupLimit {
  // The file that has the limit.
  std::string file;
  int64_t limit = 0;
  // Of memory, without files that the system would give back.
  int64_t taken = 0;
};

// Of the groups that this process is in and of those around them, v1 and v2;
// those without a limit are left out. `root` is before every path.
std::vector<GroupLimit> task_limits(const std::string& root = "");
std::vector<GroupLimit> memory_limits(const std::string& root = "");

}  // namespace weft
