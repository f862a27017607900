// SPDX-License-Identifier: Apache-2.0
// The ranks are this test again, in processes of their own.
#include "execute/launch.h"

#include "execute/process.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace weft {
namespace {

using namespace std::chrono_literals;

int64_t own_rank() {
  const char* rank = std::getenv("RANK");
  return std::getenv(kStartVariable) == nullptr || rank == nullptr
             ? -1
             : std::stoll(rank);
}

int start_again(int64_t ranks) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return start_ranks(
      ranks,
      {std::string("--gtest_filter=") + test->test_suite_name() + "." +
           test->name(),
       "--gtest_brief=1"});
}

TEST(Launch, TheFirstThatFailsIsNamed) {
  if (own_rank() >= 0) {
    ::_exit(own_rank() == 1 ? 7 : 0);
  }
  testing::internal::CaptureStderr();
  const int status = start_again(3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 7);
  EXPECT_EQ(said, "weft: rank 1 ended with exit status 7\n");
}

// The first thread of a process that is killed can end long before its others
// do. The ranks that see it gone leave first then.
TEST(Launch, OneThatWasKilledIsNamedBeforeThoseThatMissIt) {
  constexpr const char* kTell = "WEFT_TEST_TELL";
  std::array<int, 2> tell = {};
  if (const char* ends = std::getenv(kTell)) {
    const std::string text = ends;
    tell = {std::stoi(text), std::stoi(text.substr(text.find(' ')))};
  }
  if (own_rank() == 0) {
    const std::string who = print(this_process());
    std::thread([] {
      std::this_thread::sleep_for(500ms);
      ::kill(::getpid(), SIGKILL);
    }).detach();
    if (::write(tell[1], who.data(), who.size()) > 0) {
      ::syscall(SYS_exit, 0);
    }
    ::_exit(1);
  }
  if (own_rank() == 1) {
    std::array<char, 512> who = {};
    if (::read(tell[0], who.data(), who.size() - 1) <= 0) {
      ::_exit(1);
    }
    const ProcessId other = parse_process_id(who.data());
    while (process_state(other) != ProcessState::Gone) {
      std::this_thread::sleep_for(1ms);
    }
    ::_exit(2);
  }
  ASSERT_EQ(::pipe(tell.data()), 0);
  const std::string ends =
      std::to_string(tell[0]) + " " + std::to_string(tell[1]);
  ::setenv(kTell, ends.c_str(), 1);
  testing::internal::CaptureStderr();
  const int status = start_again(2);
  const std::string said = testing::internal::GetCapturedStderr();
  ::unsetenv(kTell);
  ::close(tell[0]);
  ::close(tell[1]);
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_EQ(said, "weft: rank 0 was killed by signal 9 (Killed)\n");
}

}  // namespace
}  // namespace weft
