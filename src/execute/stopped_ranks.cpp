// SPDX-License-Identifier: Apache-2.0
#include "execute/stopped_ranks.h"

#include "execute/heartbeat.h"

namespace weft {
namespace {

// A turn of the launcher's loop that took so long was none.
constexpr std::chrono::seconds kLostTurn{2};

}  // namespace

void StoppedRanks::stopped(int64_t rank) {
  since_.try_emplace(rank, Stop{Clock::now(), false});
}

void StoppedRanks::look() {
  const Clock::time_point now = Clock::now();
  if (now - looked_ > kLostTurn) {
    for (auto& [rank, stop] : since_) {
      stop.since = now;
    }
  }
  looked_ = now;
}

std::vector<int64_t> StoppedRanks::to_name() {
  std::vector<int64_t> found;
  for (auto& [rank, stop] : since_) {
    if (!stop.is_named && Clock::now() - stop.since >= kHeartbeat) {
      stop.is_named = true;
      found.push_back(rank);
    }
  }
  return found;
}

std::vector<int64_t> StoppedRanks::to_end() const {
  std::vector<int64_t> found;
  for (const auto& [rank, stop] : since_) {
    if (Clock::now() - stop.since > stall_ + kHeartbeat) {
      found.push_back(rank);
    }
  }
  return found;
}

std::vector<int64_t> StoppedRanks::ranks() const {
  std::vector<int64_t> found;
  for (const auto& [rank, stop] : since_) {
    found.push_back(rank);
  }
  return found;
}

}  // namespace weft
