// SPDX-License-Identifier: Apache-2.0
// What the control groups of a process allow it, v1 and v2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct ControlGroup {
  // "/jobs/run", as far as it can be seen here; a container may see its own
  // group as "/".
  std::string name;
  // Where its files are.
  std::string folder;
  bool is_v2 = false;
};

// The groups of a controller ("memory", "pids") that a process is in, each
// followed by those around it; v2 has the same for all controllers. `process`
// is "self" or a number, `root` is before every path.
std::vector<ControlGroup> control_groups(
    const std::string& controller,
    const std::string& process = "self",
    const std::string& root = "");

// A limit of one control group, and how much of it is taken.
struct GroupLimit {
  // The file that has the limit.
  std::string file;
  int64_t limit = 0;
  // Of memory, without files that the system would give back.
  int64_t taken = 0;
};

// Groups without a limit are left out.
std::vector<GroupLimit> task_limits(const std::string& root = "");
std::vector<GroupLimit> memory_limits(
    const std::string& root = "", const std::string& process = "self");

// How many processes of the group the system has killed because memory had run
// out; none where nobody counts them.
std::optional<int64_t> killed_for_memory(const ControlGroup& group);

}  // namespace weft
