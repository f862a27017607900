// SPDX-License-Identifier: Apache-2.0
#include "execute/control_groups.h"

#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string_view>

namespace weft {
namespace {

namespace fs = std::filesystem;

// v1 says "none" by a number of pages that no machine has.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// Where the groups of a controller are mounted, and which of them is ours.
struct Place {
  fs::path mount;
  fs::path group;
  bool is_v2 = false;
};

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) {
    words.push_back(word);
  }
  return words;
}

bool lists(const std::string& with_commas, std::string_view word) {
  const std::vector<std::string> words = split(with_commas, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// By /proc/self/cgroup, "4:pids,cpu:/jobs/7", and for v2 "0::/jobs/7".
std::optional<std::string> group_of(
    const std::string& cgroup, std::string_view controller, bool is_v2) {
  for (const std::string& line : lines_of(cgroup)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : lists(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// By /proc/self/mountinfo: "36 31 0:36 ROOT MOUNT rw,relatime - cgroup cgroup
// rw,pids". A container may see its group as the root of the mount.
std::vector<Place> places_of(
    const std::string& root,
    std::string_view controller,
    const std::string& process) {
  const std::string cgroup = cat(root, "/proc/", process, "/cgroup");
  std::vector<Place> places;
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) {
      continue;
    }
    const bool is_v2 = dash[1] == "cgroup2";
    if (!is_v2 && (dash[1] != "cgroup" || !lists(dash[3], controller))) {
      continue;
    }
    if (const auto group = group_of(cgroup, controller, is_v2)) {
      const std::string& mounted = words[3];
      const bool is_inside = mounted != "/" && group->starts_with(mounted);
      const std::string within =
          is_inside ? group->substr(mounted.size()) : *group;
      const bool is_outside = within.find("..") != std::string::npos;
      places.push_back(
          {root + words[4],
           is_outside ? fs::path() : fs::path(within).relative_path(),
           is_v2});
    }
  }
  return places;
}

// "max", and what is not there, are none.
std::optional<int64_t> number_in(const fs::path& file) {
  const std::vector<std::string> lines = lines_of(file);
  const std::optional<int64_t> number =
      lines.empty() ? std::nullopt : read_integer(lines.front());
  return number && *number >= 0 && *number < kNoLimit ? number : std::nullopt;
}

// What a file says of a name, in lines such as "inactive_file 4096".
std::optional<int64_t> number_of(const fs::path& file, std::string_view name) {
  for (const std::string& line : lines_of(file)) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() == 2 && words[0] == name) {
      return read_integer(words[1]);
    }
  }
  return std::nullopt;
}

// Of files that nobody writes.
int64_t file_bytes(const fs::path& stat, bool is_v2) {
  int64_t bytes = 0;
  for (const char* name : {"inactive_file", "active_file"}) {
    bytes += number_of(stat, cat(is_v2 ? "" : "total_", name)).value_or(0);
  }
  return bytes;
}

struct Files {
  const char* limit;
  const char* taken;
};

std::vector<GroupLimit> limits_of(
    const std::vector<ControlGroup>& groups,
    bool is_memory,
    const Files& v1,
    const Files& v2) {
  std::vector<GroupLimit> limits;
  for (const ControlGroup& group : groups) {
    const Files& files = group.is_v2 ? v2 : v1;
    const fs::path folder = group.folder;
    const auto limit = number_in(folder / files.limit);
    const auto taken = number_in(folder / files.taken);
    if (limit && taken) {
      const int64_t free_again =
          is_memory ? file_bytes(folder / "memory.stat", group.is_v2) : 0;
      limits.push_back(
          {(folder / files.limit).string(),
           *limit,
           std::max<int64_t>(0, *taken - free_again)});
    }
  }
  return limits;
}

}  // namespace

std::vector<ControlGroup> control_groups(
    const std::string& controller,
    const std::string& process,
    const std::string& root) {
  std::vector<ControlGroup> groups;
  for (const Place& place : places_of(root, controller, process)) {
    // From the one that it is in outwards, to the one that is mounted.
    for (fs::path group = place.group;; group = group.parent_path()) {
      groups.push_back(
          {("/" / group).string(),
           (group.empty() ? place.mount : place.mount / group).string(),
           place.is_v2});
      if (group.empty()) {
        break;
      }
    }
  }
  return groups;
}

std::vector<GroupLimit> task_limits(const std::string& root) {
  constexpr Files kFiles = {"pids.max", "pids.current"};
  return limits_of(control_groups("pids", "self", root), false, kFiles, kFiles);
}

std::vector<GroupLimit> memory_limits(
    const std::string& root, const std::string& process) {
  return limits_of(
      control_groups("memory", process, root),
      true,
      {"memory.limit_in_bytes", "memory.usage_in_bytes"},
      {"memory.max", "memory.current"});
}

std::optional<int64_t> killed_for_memory(const ControlGroup& group) {
  return number_of(
      fs::path(group.folder) /
          (group.is_v2 ? "memory.events" : "memory.oom_control"),
      "oom_kill");
}

}  // namespace weft
