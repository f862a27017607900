// SPDX-License-Identifier: Apache-2.0
// The ranks are this test again, in processes of their own.
#include "execute/launch.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/process.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

// How many calls of fork() go well before one fails as at a limit; below 0: all
// do.
int good_forks = -1;

}  // namespace

extern "C" pid_t fork() noexcept {
  using Fork = pid_t (*)();
  static const auto real = reinterpret_cast<Fork>(::dlsym(RTLD_NEXT, "fork"));
  if (good_forks == 0) {
    errno = EAGAIN;
    return -1;
  }
  good_forks -= good_forks > 0 ? 1 : 0;
  return real();
}

namespace weft {
namespace {

using namespace std::chrono_literals;

int64_t own_rank() {
  const char* rank = std::getenv("RANK");
  return std::getenv(kStartVariable) == nullptr || rank == nullptr
             ? -1
             : std::stoll(rank);
}

int start_again(int64_t ranks, const StartOptions& options = {}) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return start_ranks(
      ranks,
      {std::string("--gtest_filter=") + test->test_suite_name() + "." +
           test->name(),
       "--gtest_brief=1"},
      options);
}

// A rank that would stay for longer than any test waits. It has the mask of the
// test, which may hold signals back.
void stay_as_rank() {
  if (own_rank() >= 0) {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
    std::this_thread::sleep_for(300s);
    ::_exit(1);
  }
}

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

// Of this thread alone: threads of other tests hold no signal back.
void send_to_self(int signal) {
  ::syscall(SYS_tgkill, ::getpid(), ::getpid(), signal);
}

// Signals that come before a start are held back for it.
class Held {
 public:
  Held() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~Held() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  sigset_t before_ = {};
};

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

TEST(Launch, AStoppedRankIsNamedAndEnded) {
  if (own_rank() == 1) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  if (own_rank() == 0) {
    std::this_thread::sleep_for(5s);
    ::_exit(0);
  }
  ::setenv("WEFT_STALL_SECONDS", "1", 1);
  testing::internal::CaptureStderr();
  const int status = start_again(2);
  const std::string said = testing::internal::GetCapturedStderr();
  ::unsetenv("WEFT_STALL_SECONDS");
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_NE(
      said.find("weft: warning: rank 1 is stopped, and holds up the others: "
                "kill -CONT "),
      std::string::npos)
      << said;
  EXPECT_NE(
      said.find("weft: rank 1 has been stopped for more than 1 s "
                "(WEFT_STALL_SECONDS), and is ended\n"),
      std::string::npos)
      << said;
}

TEST(Launch, ARankThatIsStoppedForAWhileGoesOn) {
  if (own_rank() == 1) {
    const pid_t self = ::getpid();
    if (::fork() == 0) {
      std::this_thread::sleep_for(1500ms);
      ::kill(self, SIGCONT);
      ::_exit(0);
    }
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  if (own_rank() == 0) {
    ::_exit(0);
  }
  testing::internal::CaptureStderr();
  const int status = start_again(2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(status, 0);
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

TEST(Launch, ASignalThatCameBeforeStartsNone) {
  stay_as_rank();
  for (const int signal : {SIGTERM, SIGINT}) {
    const Held held;
    send_to_self(signal);
    testing::internal::CaptureStderr();
    const int status = start_again(3);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, 128 + signal);
    EXPECT_EQ(
        said,
        cat("weft: stopped by ",
            signal == SIGINT ? "SIGINT" : "SIGTERM",
            " when 0 of 3 ranks were started; they are ended, and nothing was "
            "run\n"));
    EXPECT_FALSE(has_children());
  }
}

// It comes when the first ranks are there; whether others are still to be
// started then is chance.
TEST(Launch, ASignalWhileRanksAreStartedEndsThemAll) {
  stay_as_rank();
  const Held held;
  std::atomic<bool> is_over = false;
  // Holds no signal back: the system gives it the one that is sent to all.
  std::thread sender([&] {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
    const std::string children =
        cat("/proc/self/task/", ::getpid(), "/children");
    std::string first;
    while (!is_over && !(std::ifstream(children) >> first)) {
      std::this_thread::yield();
    }
    if (!is_over) {
      ::kill(::getpid(), SIGTERM);
    }
  });
  testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  const int status = start_again(12, {.oversubscribe = true});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  is_over = true;
  sender.join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 128 + SIGTERM) << said;
  EXPECT_TRUE(
      said.starts_with("weft: stopped by SIGTERM when ") ||
      said.find("was killed by signal 15") != std::string::npos)
      << said;
  EXPECT_FALSE(has_children());
}

TEST(Launch, AForkThatFailsEndsThoseBeforeIt) {
  stay_as_rank();
  good_forks = 2;
  std::string said;
  try {
    start_again(4);
  } catch (const UserError& error) {
    said = error.what();
  }
  good_forks = -1;
  EXPECT_EQ(
      said,
      "cannot start rank 2 of 4: Resource temporarily unavailable; those "
      "before it are ended. The system allows no more processes: ask for fewer "
      "ranks, or raise ulimit -u or pids.max of the control group");
  EXPECT_FALSE(has_children());
}

TEST(Launch, MoreThanThereIsRoomForAreNotStarted) {
  stay_as_rank();
  good_forks = 0;
  std::string said;
  try {
    start_again(1'000'000, {.asked_by = "big.plan", .oversubscribe = true});
  } catch (const UserError& error) {
    said = error.what();
  }
  good_forks = -1;
  EXPECT_TRUE(said.starts_with(
      "big.plan asks for 1000000 ranks on this machine, which has room for "))
      << said;
}

}  // namespace
}  // namespace weft
