// SPDX-License-Identifier: Apache-2.0
#include "execute/held_signals.h"

#include "base/error.h"

#include <atomic>
#include <cerrno>
#include <ctime>
#include <pthread.h>

namespace weft {
namespace {

// A handler reaches nothing but these.
std::atomic<bool> holds_signals = false;
std::atomic<bool> came_from_terminal = false;
pthread_t holding_thread;

static_assert(std::atomic<bool>::is_always_lock_free);

// On a thread that holds nothing back: on to the one that does. What is sent on
// does not tell where it came from.
void send_on(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (info->si_code == SI_KERNEL) {
    came_from_terminal = true;
  }
  ::pthread_kill(holding_thread, signal);
  errno = error;
}

}  // namespace

HeldSignals::HeldSignals() {
  WEFT_CHECK(!holds_signals.exchange(true), "signals are held already");
  holding_thread = ::pthread_self();
  came_from_terminal = false;
  sigemptyset(&held_);
  sigemptyset(&stops_);
  for (const int signal : kStops) {
    sigaddset(&held_, signal);
    sigaddset(&stops_, signal);
  }
  sigaddset(&held_, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  struct sigaction action = {};
  action.sa_sigaction = send_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kStops.size(); ++i) {
    ::sigaction(kStops[i], &action, &earlier_actions_[i]);
  }
}

HeldSignals::~HeldSignals() {
  restore();
  holds_signals = false;
}

void HeldSignals::restore() const {
  for (size_t i = 0; i < kStops.size(); ++i) {
    ::sigaction(kStops[i], &earlier_actions_[i], nullptr);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

HeldSignals::Stop HeldSignals::stop_of(int signal, const siginfo_t& info) {
  if (signal != SIGINT && signal != SIGTERM) {
    return {};
  }
  const bool was_sent_on = came_from_terminal.exchange(false);
  return {signal, info.si_code == SI_KERNEL || was_sent_on};
}

HeldSignals::Stop HeldSignals::take_stop() const {
  siginfo_t info = {};
  const timespec now = {0, 0};
  const int signal = ::sigtimedwait(&stops_, &info, &now);
  return stop_of(signal, info);
}

HeldSignals::Stop HeldSignals::wait() const {
  siginfo_t info = {};
  const timespec tick = {1, 0};
  const int signal = ::sigtimedwait(&held_, &info, &tick);
  return stop_of(signal, info);
}

}  // namespace weft
