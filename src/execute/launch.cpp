// SPDX-License-Identifier: Apache-2.0
#include "execute/launch.h"

#include "base/error.h"
#include "execute/held_signals.h"
#include "execute/memory_group.h"
#include "execute/open_files.h"
#include "execute/process.h"
#include "execute/rank_room.h"
#include "execute/rendezvous.h"
#include "execute/secret.h"
#include "execute/stopped_ranks.h"
#include "execute/store_server.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A process that a signal ended has this and the signal's number as its status.
constexpr int kSignalStatus = 128;

// The environment of one rank, ready before the fork, after which memory must
// not be asked for.
class RankEnvironment {
 public:
  RankEnvironment(int64_t rank, int64_t ranks, const std::string& start) {
    const std::map<std::string, std::string> own = {
        {"RANK", cat(rank)},
        {"LOCAL_RANK", cat(rank)},
        {"WORLD_SIZE", cat(ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        // They meet at a socket that has no port.
        {"MASTER_PORT", "0"},
        {kStartVariable, start}};
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!own.contains(text.substr(0, text.find('=')))) {
        texts_.push_back(text);
      }
    }
    for (const auto& [name, value] : own) {
      texts_.push_back(cat(name, "=", value));
    }
    for (std::string& text : texts_) {
      pointers_.push_back(text.data());
    }
    pointers_.push_back(nullptr);
  }

  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// The rank's share of the cores this process may use; all of them without
// `pin`.
cpu_set_t cores_of(int64_t rank, bool pin) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ::sched_getaffinity(0, sizeof(all), &all);
  if (!pin) {
    return all;
  }
  int64_t skip = rank % CPU_COUNT(&all);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all) && skip-- == 0) {
      CPU_SET(core, &one);
      break;
    }
  }
  return one;
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    return cat(
        "was killed by signal ",
        WTERMSIG(status),
        " (",
        ::strsignal(WTERMSIG(status)),
        ")");
  }
  return cat("ended with exit status ", WEXITSTATUS(status));
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status)
                           : kSignalStatus + WTERMSIG(status);
}

// The running ranks, from the first to the last one's end.
class Ranks {
 public:
  // `tell_ended` lets the others know that a rank has ended.
  Ranks(
      const HeldSignals& signals,
      int64_t ranks,
      const StartOptions& options,
      std::function<void(const std::string&)> tell_ended)
      : signals_(signals),
        ranks_(ranks),
        options_(options),
        tell_ended_(std::move(tell_ended)),
        stopped_(std::chrono::seconds(stall_seconds_from_environment())) {}
  ~Ranks() { end_all(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void start(
      int64_t rank,
      const std::vector<char*>& argv,
      const RankEnvironment& environment) {
    const cpu_set_t cores = cores_of(rank, options_.pin);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) {
        ::_exit(127);
      }
      ::sched_setaffinity(0, sizeof(cores), &cores);
      signals_.restore();
      ::execve("/proc/self/exe", argv.data(), environment.get());
      ::_exit(127);
    }
    if (child < 0) {
      fail_to_start(rank, errno);
    }
    running_[child] = rank;
    memory_.note(child);
  }

  // They have done nothing yet that would have to be saved.
  int stop_before_all_run(int signal) {
    const size_t started = running_.size();
    end_all();
    std::cerr << cat("weft: stopped by ",
                     signal == SIGINT ? "SIGINT" : "SIGTERM",
                     " when ",
                     started,
                     " of ",
                     ranks_,
                     " ranks were started; they are ended, and nothing was "
                     "run\n")
              << std::flush;
    return kSignalStatus + signal;
  }

  int wait() {
    while (!running_.empty()) {
      const HeldSignals::Stop stop = signals_.wait();
      if (stop.signal != 0) {
        pass_on(stop);
      }
      reap();
      look_at_stopped();
      const bool is_over = !failures_.empty() && Clock::now() > deadline_;
      const bool is_said = failures_.empty() || failed_ != 0;
      if (!is_said && (is_over || !is_one_ending())) {
        report();
      }
      if (is_over) {
        kill_all(SIGKILL);
      }
    }
    return failed_;
  }

 private:
  void pass_on(const HeldSignals::Stop& stop) {
    if (++stop_signals_ > 1) {
      kill_all(SIGKILL);
    } else if (!stop.is_of_terminal) {
      // The terminal's Ctrl-C has reached the ranks already.
      kill_all(stop.signal);
    }
  }

  void reap() {
    int status = 0;
    for (auto rank = running_.begin(); rank != running_.end();) {
      const auto here = rank++;
      if (::waitpid(here->first, &status, WNOHANG | WUNTRACED | WCONTINUED) !=
          here->first) {
        memory_.note(here->first);
        continue;
      }
      if (WIFSTOPPED(status)) {
        stopped_.stopped(here->second);
        continue;
      }
      stopped_.goes_on(here->second);
      if (WIFCONTINUED(status)) {
        continue;
      }
      note_end(here->first, here->second, status);
      running_.erase(here);
    }
  }

  void note_end(pid_t pid, int64_t rank, int status) {
    std::string how = ending(status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      if (const auto why = memory_.explain(pid)) {
        how +=
            cat(": ", *why, options_.memory_of ? options_.memory_of(rank) : "");
      }
    }
    tell_ended_(cat(name(rank), " ", how));
    if (exit_code(status) == 0) {
      return;
    }
    if (failures_.empty()) {
      deadline_ = Clock::now() + std::chrono::seconds(options_.grace_seconds);
    }
    failures_.push_back({rank, status, how});
  }

  // A stopped rank is named, and ended when nobody waits for it any longer: at
  // once after another has failed, since it can neither say why nor leave.
  void look_at_stopped() {
    stopped_.look();
    for (const int64_t rank : stopped_.to_name()) {
      std::cerr << cat("weft: warning: ",
                       name(rank),
                       " is stopped, and holds up the others: kill -CONT ",
                       process(rank),
                       " lets it go on\n")
                << std::flush;
    }
    for (const int64_t rank :
         failed_ != 0 ? stopped_.ranks() : stopped_.to_end()) {
      if (failed_ == 0) {
        tell_ended_(cat(name(rank), " was ended, since it was stopped,"));
        std::cerr << cat("weft: ",
                         name(rank),
                         " has been stopped for more than ",
                         stall_seconds_from_environment(),
                         " s (WEFT_STALL_SECONDS), and is ended\n")
                  << std::flush;
      }
      ::kill(process(rank), SIGKILL);
      stopped_.goes_on(rank);
    }
  }

  // Whether one of them has ended, but some of its threads have not, and it
  // cannot be waited for yet. Another that missed it may have left before.
  bool is_one_ending() const {
    return std::any_of(running_.begin(), running_.end(), [](const auto& rank) {
      return process_state(process_of(rank.first)) == ProcessState::Gone;
    });
  }

  // Says which rank failed: one that was killed, which could not say so itself,
  // or else the first.
  void report() {
    const auto killed = std::find_if(
        failures_.begin(), failures_.end(), [](const Failure& failure) {
          return WIFSIGNALED(failure.status);
        });
    const Failure& cause =
        killed == failures_.end() ? failures_.front() : *killed;
    failed_ = exit_code(cause.status);
    std::cerr << cat("weft: ", name(cause.rank), " ", cause.how, "\n")
              << std::flush;
  }

  [[noreturn]] void fail_to_start(int64_t rank, int error) {
    end_all();
    throw UserError(
        cat("cannot start rank ",
            rank,
            " of ",
            ranks_,
            ": ",
            std::strerror(error),
            rank == 0 ? "" : "; those before it are ended",
            error == EAGAIN ? ". The system allows no more processes: ask for "
                              "fewer ranks, or raise ulimit -u or pids.max of "
                              "the control group"
                            : ""));
  }

  std::string name(int64_t rank) const {
    return options_.rank_names.empty()
               ? cat("rank ", rank)
               : options_.rank_names.at(static_cast<size_t>(rank));
  }

  // Of a rank that runs.
  pid_t process(int64_t rank) const {
    return std::find_if(
               running_.begin(),
               running_.end(),
               [rank](const auto& each) { return each.second == rank; })
        ->first;
  }

  void kill_all(int signal) {
    for (const auto& [pid, rank] : running_) {
      ::kill(pid, signal);
    }
  }

  // None is left when this returns.
  void end_all() {
    kill_all(SIGKILL);
    for (const auto& [pid, rank] : running_) {
      int ignored = 0;
      while (::waitpid(pid, &ignored, 0) < 0 && errno == EINTR) {
      }
    }
    running_.clear();
  }

  struct Failure {
    int64_t rank = 0;
    int status = 0;
    std::string how;
  };

  const HeldSignals& signals_;
  const int64_t ranks_;
  const StartOptions options_;
  const std::function<void(const std::string&)> tell_ended_;
  StoppedRanks stopped_;
  MemoryKills memory_;
  std::map<pid_t, int64_t> running_;
  std::vector<Failure> failures_;
  int failed_ = 0;
  int stop_signals_ = 0;
  // From the first failure on.
  Clock::time_point deadline_;
};

}  // namespace

std::string launcher_socket(const std::string& start) {
  return cat("weft/", start);
}

int start_ranks(
    int64_t ranks,
    const std::vector<std::string>& arguments,
    const StartOptions& options) {
  verify_room({ranks, options.asked_by, options.oversubscribe});
  need_open_files(open_files_of_run(ranks));
  std::string program = "weft";
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : copies) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const std::string start = cat(::getpid(), ".", unguessable_name());
  // Before the store's threads begin, so that no signal goes to them.
  const HeldSignals signals;
  const StoreServer store(
      listen_at({.name = launcher_socket(start)}), std::nullopt);
  Ranks running(signals, ranks, options, [&](const std::string& how) {
    const std::vector<uint8_t> text(how.begin(), how.end());
    store.keys()->compareSet(ended_key(start), std::vector<uint8_t>(), text);
  });
  for (int64_t rank = 0;; ++rank) {
    // Also after the last one, which was not there yet when a terminal sent its
    // signal to all of us.
    if (const int signal = signals.take_stop().signal; signal != 0) {
      return running.stop_before_all_run(signal);
    }
    if (rank == ranks) {
      return running.wait();
    }
    running.start(rank, argv, RankEnvironment(rank, ranks, start));
  }
}

}  // namespace weft
