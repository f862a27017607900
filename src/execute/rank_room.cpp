// SPDX-License-Identifier: Apache-2.0
#include "execute/rank_room.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "execute/control_groups.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sched.h>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFewerRanks = "ask for fewer ranks";

// The word after `name` in a file of lines such as "MemAvailable:  12 kB".
std::optional<std::string> field_of(
    const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string word;
    if (in >> word && word == name && in >> word) {
      return word;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> integer_field(
    const std::string& path, std::string_view name) {
  const std::optional<std::string> text = field_of(path, name);
  return text ? read_integer(*text) : std::nullopt;
}

int64_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0
             ? std::max(1, CPU_COUNT(&cores))
             : 1;
}

RoomLimit memory_limit(int64_t free_bytes, const std::string& reason) {
  return {
      std::max<int64_t>(0, free_bytes) / kLeastRankBytes,
      cat(reason,
          ", and a rank takes ",
          human_bytes(static_cast<double>(kLeastRankBytes)),
          " at the least"),
      cat(kFewerRanks, ", or free memory")};
}

RoomLimit task_limit(
    int64_t free_tasks, const std::string& reason, const std::string& raise) {
  return {
      std::max<int64_t>(0, free_tasks) / kLeastRankTasks,
      cat(reason,
          ", and a rank takes ",
          kLeastRankTasks,
          " processes and threads at the least"),
      cat(kFewerRanks, ", or ", raise)};
}

// RLIMIT_NPROC is not for root, nor for those with CAP_SYS_ADMIN or
// CAP_SYS_RESOURCE.
bool is_limited_by_user(const std::string& root) {
  constexpr uint64_t kExempt = (1U << 21) | (1U << 24);
  const auto text = field_of(root + "/proc/self/status", "CapEff:");
  const auto capabilities = text ? read_hexadecimal(*text) : std::nullopt;
  return ::getuid() != 0 && (capabilities.value_or(0) & kExempt) == 0;
}

// Threads of all processes of this process's user, which RLIMIT_NPROC counts.
int64_t tasks_of_user(const std::string& root) {
  const std::string user = cat(::getuid());
  int64_t tasks = 0;
  std::error_code error;
  for (fs::directory_iterator entry(root + "/proc", error), end; entry != end;
       entry.increment(error)) {
    if (error || !read_integer(entry->path().filename().string())) {
      continue;
    }
    const std::string status = (entry->path() / "status").string();
    if (field_of(status, "Uid:") == user) {
      tasks += integer_field(status, "Threads:").value_or(0);
    }
  }
  return tasks;
}

void add_user_limit(const std::string& root, RankRoom& room) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY || !is_limited_by_user(root)) {
    return;
  }
  const int64_t taken = tasks_of_user(root);
  const auto most = static_cast<int64_t>(limit.rlim_cur);
  room.limits.push_back(task_limit(
      most - taken,
      cat("this user may have ",
          most,
          " processes and threads (RLIMIT_NPROC) and has ",
          taken),
      "raise it with ulimit -u"));
}

void add_group_limits(const std::string& root, RankRoom& room) {
  for (const GroupLimit& group : task_limits(root)) {
    room.limits.push_back(task_limit(
        group.limit - group.taken,
        cat("the control group may have ",
            group.limit,
            " processes and threads (",
            group.file,
            ") and has ",
            group.taken),
        "raise that"));
  }
  for (const GroupLimit& group : memory_limits(root)) {
    room.limits.push_back(memory_limit(
        group.limit - group.taken,
        cat("the control group may have ",
            human_bytes(static_cast<double>(group.limit)),
            " of memory (",
            group.file,
            ") and has taken ",
            human_bytes(static_cast<double>(group.taken)))));
  }
}

}  // namespace

RankRoom rank_room(const std::string& root) {
  RankRoom room;
  room.cores = usable_cores();
  constexpr int64_t kKibibyte = 1024;
  if (const auto kibibytes =
          integer_field(root + "/proc/meminfo", "MemAvailable:")) {
    const int64_t bytes = *kibibytes * kKibibyte;
    room.limits.push_back(memory_limit(
        bytes,
        cat(human_bytes(static_cast<double>(bytes)),
            " of memory are available (/proc/meminfo)")));
  }
  add_user_limit(root, room);
  add_group_limits(root, room);
  return room;
}

void verify_room(const RankRequest& request, const RankRoom& room) {
  const auto narrowest = std::min_element(
      room.limits.begin(),
      room.limits.end(),
      [](const RoomLimit& a, const RoomLimit& b) { return a.ranks < b.ranks; });
  WEFT_CHECK_USER(
      narrowest == room.limits.end() || request.ranks <= narrowest->ranks,
      request.asked_by,
      " asks for ",
      request.ranks,
      " ranks on this machine, which has room for ",
      narrowest->ranks,
      ": ",
      narrowest->reason,
      "; ",
      narrowest->way_out);
  const int64_t most = kMostRanksPerCore * room.cores;
  WEFT_CHECK_USER(
      request.oversubscribe || request.ranks <= most,
      request.asked_by,
      " asks for ",
      request.ranks,
      " ranks on this machine, and its ",
      room.cores,
      room.cores == 1 ? " core takes " : " cores take ",
      most,
      " (",
      kMostRanksPerCore,
      " each) unless you say otherwise; ask for fewer ranks, or give "
      "--oversubscribe");
}

void verify_room(const RankRequest& request) {
  if (request.ranks > 1) {
    verify_room(request, rank_room());
  }
}

}  // namespace weft
