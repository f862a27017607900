// SPDX-License-Identifier: Apache-2.0
#include "cli/lap_timer.h"

#include "base/number.h"
#include "base/text.h"
#include "cli/figures.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

namespace weft {
namespace {

using LapClock = std::chrono::steady_clock;

constexpr double kRoundSeconds = 0.015;
// On a busy machine a transfer can take far longer than the one before.
constexpr int64_t kMostCalls = 200;
constexpr double kShortestCallSeconds = 1e-7;
// In messages.
constexpr std::string_view kOfRank = "what a rank measured";

double lap_seconds(LapClock::time_point start) {
  return std::chrono::duration<double>(LapClock::now() - start).count();
}

}  // namespace

LapTimer::LapTimer(const Rendezvous& rendezvous, int rounds)
    : rendezvous_(rendezvous), rounds_(rounds) {
  if (rendezvous.size > 1) {
    world_ = connect(rendezvous);
    std::vector<int64_t> ranks(static_cast<size_t>(rendezvous.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    all_ = world_->group(ranks);
  }
}

double LapTimer::seconds(const std::function<void()>& call) {
  call();
  const LapClock::time_point once = LapClock::now();
  call();
  const double estimate = std::max(lap_seconds(once), kShortestCallSeconds);
  const int64_t calls = as_rank_0(std::clamp<int64_t>(
      static_cast<int64_t>(kRoundSeconds / estimate), 1, kMostCalls));
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds_; ++round) {
    together();
    const LapClock::time_point start = LapClock::now();
    for (int64_t i = 0; i < calls; ++i) {
      call();
    }
    least = std::min(least, lap_seconds(start) / static_cast<double>(calls));
  }
  return of_all(least);
}

double LapTimer::seconds_once(const std::function<void()>& call) {
  together();
  const LapClock::time_point start = LapClock::now();
  call();
  return of_all(lap_seconds(start));
}

int64_t LapTimer::as_rank_0(int64_t mine) {
  return world_ ? expect_integer(world_->tell_all(cat(mine)), kOfRank, {})
                : mine;
}

void LapTimer::together() {
  if (all_) {
    all_->barrier()->wait();
  }
}

double LapTimer::of_all(double mine) {
  if (!world_) {
    return mine;
  }
  std::vector<double> values;
  for (const std::string& text : world_->gather(print_double(mine))) {
    values.push_back(expect_number(text, kOfRank, NumberRange::Any));
  }
  return values.empty() ? 0 : median(values);
}

}  // namespace weft
