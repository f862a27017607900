// SPDX-License-Identifier: Apache-2.0
#include "execute/memory_group.h"

#include "base/error.h"
#include "base/text.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft {
namespace {

namespace fs = std::filesystem;

// Version 1 writes "no limit" as a number near the largest.
constexpr int64_t kUnlimitedBytes = int64_t{1} << 60;

struct GroupPlace {
  std::string name;
  bool is_first_version = false;
};

// Lines as "4:memory:/jobs/run" (version 1) and "0::/jobs/run" (version 2).
std::optional<GroupPlace> group_place_of(int64_t pid) {
  std::ifstream file(cat("/proc/", pid, "/cgroup"));
  std::optional<GroupPlace> unified;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string kinds = line.substr(first + 1, second - first - 1);
    const std::string name = line.substr(second + 1);
    for (const std::string& kind : split(kinds, ',')) {
      if (kind == "memory") {
        return GroupPlace{name, true};
      }
    }
    if (kinds.empty()) {
      unified = GroupPlace{name, false};
    }
  }
  return unified;
}

// Where the groups of that version are mounted.
std::string groups_mount(bool is_first_version) {
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // "30 23 0:26 ROOT POINT options ... - cgroup source options"
    std::istringstream fields(line);
    std::string skipped;
    std::string point;
    fields >> skipped >> skipped >> skipped >> skipped >> point;
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) {
      continue;
    }
    const std::string rest = line.substr(dash + 3);
    const bool is_it = is_first_version
                           ? rest.starts_with("cgroup ") &&
                                 rest.find("memory") != std::string::npos
                           : rest.starts_with("cgroup2 ");
    if (is_it) {
      return point;
    }
  }
  return "";
}

// The number behind `key` in a file of lines "key number"; of a file with one
// number, with an empty key.
std::optional<int64_t> group_number(
    const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t number = 0;
    if ((key.empty() || (words >> word && word == key)) && words >> number) {
      return number;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> least_limit(
    fs::path folder, const fs::path& mount, bool is_first_version) {
  std::optional<int64_t> least;
  const char* file = is_first_version ? "memory.limit_in_bytes" : "memory.max";
  while (true) {
    const std::optional<int64_t> limit = group_number(folder / file, "");
    if (limit && *limit < kUnlimitedBytes && (!least || *limit < *least)) {
      least = limit;
    }
    if (folder == mount || !folder.has_relative_path()) {
      return least;
    }
    folder = folder.parent_path();
  }
}

std::optional<int64_t> group_kills(const fs::path& folder) {
  const std::optional<int64_t> first =
      group_number(folder / "memory.oom_control", "oom_kill");
  return first ? first : group_number(folder / "memory.events", "oom_kill");
}

}  // namespace

std::optional<MemoryGroup> memory_group_of(int64_t pid) {
  const std::optional<GroupPlace> place = group_place_of(pid);
  if (!place) {
    return std::nullopt;
  }
  const fs::path mount = groups_mount(place->is_first_version);
  fs::path folder = mount / fs::path(place->name).relative_path();
  std::error_code ignored;
  if (folder.filename().empty()) {
    folder = folder.parent_path();
  }
  // In a container its own group may be mounted as the outermost.
  if (!fs::exists(folder, ignored)) {
    folder = mount;
  }
  const std::optional<int64_t> killed = group_kills(folder);
  if (mount.empty() || !killed) {
    return std::nullopt;
  }
  return MemoryGroup{
      place->name,
      folder.string(),
      least_limit(folder, mount, place->is_first_version),
      *killed};
}

void MemoryKills::note(int64_t pid) {
  const std::optional<MemoryGroup> group = memory_group_of(pid);
  const auto known = groups_.find(pid);
  if (group && (known == groups_.end() || known->second.name != group->name)) {
    groups_[pid] = *group;
  }
}

std::optional<std::string> MemoryKills::explain(int64_t pid) const {
  const auto known = groups_.find(pid);
  if (known == groups_.end()) {
    return std::nullopt;
  }
  const MemoryGroup& group = known->second;
  if (group_kills(group.folder).value_or(0) <= group.killed) {
    return std::nullopt;
  }
  return group.limit_bytes
             ? cat("its memory control group ",
                   group.name,
                   " has reached its limit of ",
                   human_bytes(static_cast<double>(*group.limit_bytes)))
             : cat("the machine had no more memory (its control group ",
                   group.name,
                   " has no limit)");
}

}  // namespace weft
