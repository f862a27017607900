// SPDX-License-Identifier: Apache-2.0
// Which memory control group's limit ended a process.
#pragma once

#include "execute/control_groups.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft {

struct MemoryGroup {
  ControlGroup group;
  // Of it and of those that it is in, the least; none: no limit.
  std::optional<int64_t> limit_bytes;
  // Processes of it that were killed because memory had run out.
  int64_t killed = 0;
};

// Of a process of this machine that runs; nothing where there are no such
// groups, or they cannot be read.
std::optional<MemoryGroup> memory_group_of(int64_t pid);

// Remembers in which group each process is and how many processes the group
// had killed, and tells when there are more.
class MemoryKills {
 public:
  // While the process runs, and now and then, since it may be moved.
  void note(int64_t pid);
  // Of a process that was killed by SIGKILL, in words: "its memory control
  // group /jobs/run has reached its limit of 512.0 MiB"; nothing when that was
  // not why, or nobody knows.
  std::optional<std::string> explain(int64_t pid) const;

 private:
  // By process, as it was first known to be in that group.
  std::map<int64_t, MemoryGroup> groups_;
};

}  // namespace weft
