// SPDX-License-Identifier: Apache-2.0
#include "cli/wait_for_python.h"

#include "base/text.h"
#include "execute/rendezvous.h"
#include "execute/stopped_ranks.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>
#include <sys/wait.h>
#include <thread>

namespace weft {
namespace {

// Between looks at a child that is stopped.
constexpr std::chrono::milliseconds kStoppedLook{100};

void look_at_stopped_child(StoppedRanks& stopped, pid_t child) {
  stopped.look();
  if (!stopped.to_name().empty()) {
    std::cerr
        << cat("weft: warning: the Python process is stopped: kill -CONT ",
               child,
               " lets it go on\n")
        << std::flush;
  }
  if (!stopped.to_end().empty()) {
    std::cerr << cat("weft: the Python process has been stopped for more than ",
                     stall_seconds_from_environment(),
                     " s (WEFT_STALL_SECONDS), and is ended\n")
              << std::flush;
    ::kill(child, SIGKILL);
  }
  std::this_thread::sleep_for(kStoppedLook);
}

}  // namespace

int wait_for_python(pid_t child) {
  // One rank, so to speak.
  const std::chrono::seconds stall{stall_seconds_from_environment()};
  StoppedRanks stopped(stall);
  while (true) {
    const bool is_stopped = !stopped.ranks().empty();
    int status = 0;
    const pid_t changed = ::waitpid(
        child, &status, WUNTRACED | WCONTINUED | (is_stopped ? WNOHANG : 0));
    if (changed < 0 && errno != EINTR) {
      return 0;
    }
    if (changed == child && WIFSTOPPED(status)) {
      // Time before this is nobody's.
      stopped.look();
      stopped.stopped(0);
    } else if (changed == child && WIFCONTINUED(status)) {
      stopped.goes_on(0);
    } else if (changed == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (is_stopped) {
      look_at_stopped_child(stopped, child);
    }
  }
}

}  // namespace weft
