// SPDX-License-Identifier: Apache-2.0
// Signals for a process that starts others and waits for them.
#pragma once

#include <array>
#include <signal.h>

namespace weft {

// While this lives, SIGINT, SIGTERM and SIGCHLD come to the thread that made it
// one by one, when it asks; also those that the system hands to another thread
// of the process, which would end it. One at a time may live.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  struct Stop {
    // SIGINT or SIGTERM; 0: none.
    int signal = 0;
    // Sent to all processes of the terminal, not to this one alone.
    bool is_of_terminal = false;
  };

  // If one has come; does not wait.
  Stop take_stop() const;
  // Until one comes, a process of ours ends, or a second has gone by.
  Stop wait() const;

  // For a process that was forked, before it becomes another program: signals
  // do there what they did here before. Asks for no memory.
  void restore() const;

 private:
  static constexpr std::array<int, 2> kStops = {SIGINT, SIGTERM};

  static Stop stop_of(int signal, const siginfo_t& info);

  sigset_t held_ = {};
  sigset_t stops_ = {};
  sigset_t before_ = {};
  std::array<struct sigaction, kStops.size()> earlier_actions_ = {};
};

}  // namespace weft
