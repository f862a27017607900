// SPDX-License-Identifier: Apache-2.0
#include "execute/memory_group.h"

#include "base/text.h"

#include <algorithm>

namespace weft {

std::optional<MemoryGroup> memory_group_of(int64_t pid) {
  const std::string process = cat(pid);
  for (const ControlGroup& group : control_groups("memory", process)) {
    if (const auto killed = killed_for_memory(group)) {
      MemoryGroup out = {group, std::nullopt, *killed};
      for (const GroupLimit& limit : memory_limits("", process)) {
        out.limit_bytes =
            std::min(out.limit_bytes.value_or(limit.limit), limit.limit);
      }
      return out;
    }
  }
  return std::nullopt;
}

void MemoryKills::note(int64_t pid) {
  const std::optional<MemoryGroup> group = memory_group_of(pid);
  const auto known = groups_.find(pid);
  if (group && (known == groups_.end() ||
                known->second.group.name != group->group.name)) {
    groups_[pid] = *group;
  }
}

std::optional<std::string> MemoryKills::explain(int64_t pid) const {
  const auto known = groups_.find(pid);
  if (known == groups_.end()) {
    return std::nullopt;
  }
  const auto& [group, limit_bytes, killed] = known->second;
  if (killed_for_memory(group).value_or(0) <= killed) {
    return std::nullopt;
  }
  return limit_bytes ? cat("its memory control group ",
                           group.name,
                           " has reached its limit of ",
                           human_bytes(static_cast<double>(*limit_bytes)))
                     : cat("the machine had no more memory (its control group ",
                           group.name,
                           " has no limit)");
}

}  // namespace weft
