// SPDX-License-Identifier: Apache-2.0
// Machines as trees of files: what /proc and the control groups would say.
#include "execute/rank_room.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/control_groups.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

class Machine : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / cat("weft_rank_room_", ::getpid()))
                .string();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    write_file(root_ + path, content);
  }

  void v1() {
    file(
        "/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup "
        "rw,memory\n"
        "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
    file(
        "/proc/self/cgroup",
        "9:pids:/jobs/seven\n5:memory:/jobs/seven\n0::/\n");
  }

  std::string root_;
};

TEST_F(Machine, WithNothingToReadBoundsNothing) {
  EXPECT_TRUE(rank_room(root_).limits.empty());
  EXPECT_GE(rank_room(root_).cores, 1);
}

TEST_F(Machine, AvailableMemoryBounds) {
  file("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    204800 kB\n");
  const RankRoom room = rank_room(root_);
  ASSERT_EQ(room.limits.size(), 1U);
  EXPECT_EQ(
      room.limits.front().ranks, (int64_t{204800} << 10) / kLeastRankBytes);
  EXPECT_TRUE(room.limits.front().reason.starts_with(
      "200 MiB of memory are available (/proc/meminfo), and a rank takes "));
}

TEST_F(Machine, GroupsOfV1AndThoseAroundThem) {
  v1();
  const std::string pids = "/sys/fs/cgroup/pids/jobs";
  file(pids + "/pids.max", "100\n");
  file(pids + "/pids.current", "40\n");
  file(pids + "/seven/pids.max", "max\n");
  file(pids + "/seven/pids.current", "3\n");
  const std::string memory = "/sys/fs/cgroup/memory/jobs/seven";
  file(memory + "/memory.limit_in_bytes", "1000\n");
  file(memory + "/memory.usage_in_bytes", "600\n");
  file(
      memory + "/memory.stat",
      "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 50\n");
  file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n");
  const std::vector<GroupLimit> tasks = task_limits(root_);
  ASSERT_EQ(tasks.size(), 1U);
  EXPECT_EQ(tasks[0].file, root_ + pids + "/pids.max");
  EXPECT_EQ(tasks[0].limit, 100);
  EXPECT_EQ(tasks[0].taken, 40);
  const std::vector<GroupLimit> bytes = memory_limits(root_);
  ASSERT_EQ(bytes.size(), 1U);
  EXPECT_EQ(bytes[0].limit, 1000);
  EXPECT_EQ(bytes[0].taken, 450);
}

TEST_F(Machine, GroupsOfV2InAContainer) {
  file(
      "/proc/self/mountinfo",
      "36 25 0:31 /docker/a1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  file("/proc/self/cgroup", "0::/docker/a1/init\n");
  file("/sys/fs/cgroup/pids.max", "64\n");
  file("/sys/fs/cgroup/pids.current", "24\n");
  file("/sys/fs/cgroup/init/memory.max", "4096\n");
  file("/sys/fs/cgroup/init/memory.current", "1024\n");
  file("/sys/fs/cgroup/init/memory.stat", "anon 9\ninactive_file 24\n");
  const std::vector<GroupLimit> tasks = task_limits(root_);
  ASSERT_EQ(tasks.size(), 1U);
  EXPECT_EQ(tasks[0].limit - tasks[0].taken, 40);
  const std::vector<GroupLimit> bytes = memory_limits(root_);
  ASSERT_EQ(bytes.size(), 1U);
  EXPECT_EQ(bytes[0].taken, 1000);
  EXPECT_EQ(rank_room(root_).limits.front().ranks, 40 / kLeastRankTasks);
}

TEST_F(Machine, AGroupOutsideOfWhatIsSeenIsItsRoot) {
  file(
      "/proc/self/mountinfo",
      "36 25 0:31 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  file("/proc/self/cgroup", "0::/../../a1\n");
  file("/sys/fs/cgroup/pids.max", "64\n");
  file("/sys/fs/cgroup/pids.current", "24\n");
  ASSERT_EQ(task_limits(root_).size(), 1U);
}

std::string message_of(const RankRequest& request, const RankRoom& room) {
  try {
    verify_room(request, room);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RankRoom, MoreThanTheCoresTakeAreMeantOrNot) {
  const RankRoom room = {.cores = 2, .limits = {{20, "a reason", "a way"}}};
  EXPECT_EQ(message_of({8, "--nproc", false}, room), "no error");
  EXPECT_EQ(
      message_of({9, "--nproc", false}, room),
      "--nproc asks for 9 ranks on this machine, and its 2 cores take 8 (4 "
      "each) unless you say otherwise; ask for fewer ranks, or give "
      "--oversubscribe");
  EXPECT_EQ(message_of({20, "--nproc", true}, room), "no error");
}

TEST(RankRoom, NothingLiftsTheNarrowestBound) {
  const RankRoom room = {
      .cores = 2,
      .limits = {{20, "memory", "free it"}, {10, "tasks", "raise"}}};
  for (const bool oversubscribe : {false, true}) {
    EXPECT_EQ(
        message_of({1'000'000'000, "big.plan", oversubscribe}, room),
        "big.plan asks for 1000000000 ranks on this machine, which has room "
        "for 10: tasks; raise");
  }
}

// Whatever this machine is, it has no room for so many, and for one.
TEST(RankRoom, OfThisMachine) {
  EXPECT_THROW(verify_room({1'000'000'000, "it", true}), UserError);
  EXPECT_NO_THROW(verify_room({1, "it", false}));
}

}  // namespace
}  // namespace weft
