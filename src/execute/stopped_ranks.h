// SPDX-License-Identifier: Apache-2.0
// Which ranks of a start are stopped (SIGSTOP, a terminal's Ctrl-Z), and since
// when: one that is can neither say anything nor leave.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace weft {

class StoppedRanks {
 public:
  using Clock = std::chrono::steady_clock;

  // `stall`: how long the others wait for such a rank.
  explicit StoppedRanks(std::chrono::seconds stall) : stall_(stall) {}

  void stopped(int64_t rank);
  // Or ended.
  void goes_on(int64_t rank) { since_.erase(rank); }

  // To be called about once a second before the others: when this process was
  // stopped itself, as all are by Ctrl-Z, that time counts for nobody.
  void look();
  // Those stopped for a heartbeat, each once.
  std::vector<int64_t> to_name();
  // Those that nobody waits for any longer. The ranks that wait for them have
  // the first word: a heartbeat after `stall`.
  std::vector<int64_t> to_end() const;
  // All.
  std::vector<int64_t> ranks() const;

 private:
  struct Stop {
    Clock::time_point since;
    bool is_named = false;
  };

  const std::chrono::seconds stall_;
  Clock::time_point looked_ = Clock::now();
  std::map<int64_t, Stop> since_;
};

}  // namespace weft
