// SPDX-License-Identifier: Apache-2.0
#include "execute/process.h"

#include "base/error.h"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {
namespace {

TEST(Process, PrintsAndParses) {
  const ProcessId here = this_process();
  EXPECT_EQ(here.pid, ::getpid());
  EXPECT_GT(here.start_ticks, 0);
  EXPECT_EQ(parse_process_id(print(here)), here);
  EXPECT_THROW(parse_process_id("someone else's"), UserError);
}

TEST(Process, ItsStateIsSeen) {
  int tell[2];
  ASSERT_EQ(::pipe(tell), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = print(this_process());
    ::_exit(
        ::write(tell[1], text.data(), text.size()) > 0 && ::pause() == 0 ? 0
                                                                         : 1);
  }
  char text[512] = {};
  ASSERT_GT(::read(tell[0], text, sizeof(text) - 1), 0);
  const ProcessId process = parse_process_id(text);
  EXPECT_EQ(process.pid, child);
  EXPECT_EQ(process_state(process), ProcessState::Runs);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(process_state(process), ProcessState::Stopped);
  // Another one that was given the same number.
  ProcessId earlier = process;
  --earlier.start_ticks;
  EXPECT_EQ(process_state(earlier), ProcessState::Gone);

  ::kill(child, SIGKILL);
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(process_state(process), ProcessState::Gone) << "not waited for";
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(process_state(process), ProcessState::Gone);
  ::close(tell[0]);
  ::close(tell[1]);
}

}  // namespace
}  // namespace weft
