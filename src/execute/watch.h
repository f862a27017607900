// SPDX-License-Identifier: Apache-2.0
// Nobody waits for ever, and the rank at fault is named. Every rank publishes a
// beat and what it does about once a second, and reads the others'. All ranks
// that fail do so with the message of the first that did.
#pragma once

#include "execute/process.h"
#include "execute/rendezvous.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weft {

class Watch {
 public:
  // `store` is a connection that nobody else uses. `processes` by rank. All
  // ranks make one; it returns at once.
  Watch(
      c10::intrusive_ptr<c10d::Store> store,
      const Rendezvous& rendezvous,
      std::vector<ProcessId> processes);
  // Tells the others that this rank has left.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // What this rank does, from now on; may be called from any thread.
  void tell(std::function<std::string()> doing);

  // How messages call the ranks from now on (Rendezvous::rank_names).
  void name_ranks(std::vector<std::string> names);
  std::string rank_name(int64_t rank) const;

  // Returns when `done` does: it waits for at most the time it is given and
  // tells whether what is waited for has come. `missing` are the ranks that
  // have not come as far as this one knows. Throws UserError:
  // - "rank 2 is gone ..." when a process of this machine has ended, or a
  //   missing rank has left;
  // - "rank 2 does not answer ..." after stall_seconds without a beat, and a
  //   warning that names it within twice the heartbeat;
  // - "rank 2 is slow ..." after stall_seconds in one place, or after
  //   timeout_seconds if it moves on. stall_seconds gives a warning then.
  void wait(
      const std::function<bool(std::chrono::milliseconds)>& done,
      const std::function<std::vector<int64_t>()>& missing);

  // For a connection that broke, with the reason: throws UserError as above,
  // once it is known which rank is gone.
  [[noreturn]] void fail(const std::string& reason);

  // True once it threw: what is under way will never be done.
  bool has_failed() const { return has_failed_; }

  // Whether the process of a rank has ended, as far as can be seen from here.
  bool is_gone(int64_t rank) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Peer {
    int64_t beat = -1;
    Clock::time_point heard;
    std::string doing;
    Clock::time_point moved;
    bool waits = false;
    bool has_left = false;
  };

  // Outlives this when the store does not answer any more: then the thread
  // cannot be ended.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_ending = false;
    std::function<std::string()> doing;
    std::vector<Peer> peers;
    Clock::time_point last_round;
    std::atomic<int> waits = 0;
    c10::intrusive_ptr<c10d::Store> store;
    int64_t rank = 0;
    int64_t beat = 0;
  };

  static void run(const std::shared_ptr<State>& state);
  static void publish(State& state, bool has_left);
  static void read(State& state);

  std::vector<Peer> peers() const;
  std::string own_doing() const;
  bool store_answers() const;
  bool is_here(int64_t rank) const;
  // Nobody was heard of while this process was stopped.
  void forgive();
  [[noreturn]] void raise(const std::string& message);
  // Empty: nobody is known to be.
  std::string gone(const std::vector<int64_t>& missing);
  std::string silent() const;
  // Which rank holds up the others, or -1: they all wait.
  int64_t slowest(const std::vector<int64_t>& missing) const;
  std::string slow(int64_t rank, double waited_seconds) const;
  void warn(const std::string& text) const;

  const Rendezvous rendezvous_;
  const std::vector<ProcessId> processes_;
  // By rank; guarded by the state's mutex.
  std::vector<std::string> names_;
  const std::shared_ptr<State> state_;
  std::atomic<bool> has_failed_ = false;
  std::thread thread_;
};

}  // namespace weft
