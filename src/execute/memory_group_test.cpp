// SPDX-License-Identifier: Apache-2.0
#include "execute/memory_group.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLimitBytes = size_t{16} << 20;

// A group of version 1 with so much memory; empty where it cannot be made.
fs::path make_group() {
  const fs::path folder = fs::path("/sys/fs/cgroup/memory") /
                          ("weft-test-" + std::to_string(::getpid()));
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    return "";
  }
  std::ofstream(folder / "memory.limit_in_bytes") << kLimitBytes << std::flush;
  return folder;
}

// In a process of its own, which takes more than the group has.
void take_too_much(const fs::path& group, int ready) {
  std::ofstream(group / "cgroup.procs") << ::getpid() << std::flush;
  char go = 0;
  if (::read(ready, &go, 1) != 1) {
    ::_exit(1);
  }
  auto* memory = static_cast<char*>(::mmap(
      nullptr,
      4 * kLimitBytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS,
      -1,
      0));
  for (size_t at = 0; at < 4 * kLimitBytes; at += 4096) {
    memory[at] = 1;
  }
  ::_exit(0);
}

TEST(MemoryGroup, AProcessThatItKilledIsExplained) {
  const fs::path group = make_group();
  if (group.empty()) {
    GTEST_SKIP() << "memory control groups of version 1 cannot be made here";
  }
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    take_too_much(group, ready[0]);
  }
  const std::string name = group.filename().string();
  std::optional<MemoryGroup> found;
  for (int i = 0; i < 5000; ++i) {
    found = memory_group_of(child);
    if (found && found->group.name.ends_with(name)) {
      break;
    }
    ::usleep(1000);
  }
  MemoryKills kills;
  kills.note(child);
  EXPECT_FALSE(kills.explain(child));
  ASSERT_EQ(::write(ready[1], "g", 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::optional<std::string> why = kills.explain(child);
  fs::remove(group);
  ::close(ready[0]);
  ::close(ready[1]);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit_bytes, kLimitBytes);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(why);
  EXPECT_NE(why->find(name + " has reached its limit of 16"), std::string::npos)
      << *why;
}

TEST(MemoryGroup, AProcessThatNobodyNotedIsNotExplained) {
  EXPECT_FALSE(MemoryKills().explain(::getpid()));
}

}  // namespace
}  // namespace weft
