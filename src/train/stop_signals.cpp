// SPDX-License-Identifier: Apache-2.0
#include "train/stop_signals.h"

#include "base/error.h"

#include <array>
#include <atomic>
#include <csignal>
#include <unistd.h>

namespace weft {
namespace {

constexpr std::array<int, 2> kSignals = {SIGTERM, SIGINT};
constexpr int kEndedBySignal = 130;

// A handler reaches nothing but these.
std::atomic<int> caught_signal = 0;
std::atomic<bool> is_alive = false;
std::array<struct sigaction, kSignals.size()> earlier_actions;

static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  int none = 0;
  if (!caught_signal.compare_exchange_strong(none, signal)) {
    ::_exit(kEndedBySignal);
  }
}

}  // namespace

StopSignals::StopSignals() {
  WEFT_CHECK(!is_alive.exchange(true), "signals are watched already");
  caught_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &earlier_actions[i]);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &earlier_actions[i], nullptr);
  }
  is_alive = false;
}

std::optional<std::string> StopSignals::caught() const {
  switch (caught_signal.load()) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    default:
      return std::nullopt;
  }
}

}  // namespace weft
