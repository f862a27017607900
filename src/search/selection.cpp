// SPDX-License-Identifier: Apache-2.0
#include "search/selection.h"

#include "base/text.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

// Estimates may be that far above what the simulator says of the time that a
// rank or its wires are busy.
constexpr double kBusyShare = 0.97;
// Of a candidate that is lowered quickly: with few rows a sample may be laid
// out otherwise than the step.
constexpr double kSmallBusyShare = 0.5;
// Of words that come so near to the best all policies are tried, where they are
// lowered quickly.
constexpr double kNear = 1.05;
// What was not simulated is taken where it is expected to be so much faster
// than all that was: its memory is as uncertain as its time.
constexpr double kWorthADoubt = 0.95;
// Of what others needed, to their estimates at the least, a candidate may need
// so much: no less is hoped for while nothing fits.
constexpr double kHopedFor = 0.8;
// A candidate whose estimate is so many times the best estimate of those too
// large to be lowered is not lowered.
constexpr double kFarOff = 2;
// How often the work is set aside anew while nothing that was lowered fits.
constexpr int kMostRounds = 4;

}  // namespace

void Selection::run() {
  is_proved_ = true;
  sort();
  for (int round = 0; round < kMostRounds; ++round) {
    left_ = most_instructions_;
    do {
      has_more_ = false;
      simulate_in_order();
      reopen_far_off();
      reopen_near();
      sort();
    } while (has_more_);
    if (best_simulated_ >= 0 || clock_.is_out_of_time() || !look_further()) {
      break;
    }
  }
  is_in_need_ = false;
  sort();
  confirm_best();
}

// Nothing that was lowered fits. Then estimates reject nothing that can be
// lowered, unless what stays from step to step is too much, and what needs
// the least comes first. False when all of it was lowered, or a candidate
// that cannot be seems to fit.
bool Selection::look_further() {
  is_in_need_ = true;
  bool is_any = false;
  for (Tried& tried : tried_) {
    const bool can_be = !survey_.is_too_large(tried.candidate);
    if (tried.reason.empty() && !can_be) {
      return false;
    }
    if (tried.simulated_bytes || !can_be) {
      continue;
    }
    if (tried.estimate.stage_starts.empty()) {
      survey_.look_at(tried, is_in_need_);
    }
    is_any = is_any || ((tried.reason.empty() || tried.is_doubtful) &&
                        !is_hopeless(tried));
  }
  sort();
  return is_any;
}

// Whether it may be faster than all that were simulated.
bool Selection::can_win(
    const Candidate& candidate, double least_seconds) const {
  const double share =
      survey_.is_small(candidate) ? kSmallBusyShare : kBusyShare;
  return best_simulated_ < 0 || share * least_seconds < best_simulated_;
}

// Whether it needs too much, going by its estimate and by what those needed
// that were lowered, all in vain.
bool Selection::is_hopeless(const Tried& tried) const {
  return is_in_need_ && best_simulated_ < 0 &&
         kHopedFor * least_memory_share_ *
                 static_cast<double>(total(tried.estimate.memory)) >
             static_cast<double>(trials_.budget_bytes());
}

// Those that fit or nearly do, by their estimates alike: lowering settles
// which do. The fastest first.
std::vector<Tried*> Selection::in_order() {
  std::vector<Tried*> out;
  for (Tried& tried : tried_) {
    if (tried.reason.empty() || tried.is_doubtful) {
      out.push_back(&tried);
    }
  }
  if (!is_in_need_) {
    std::stable_sort(
        out.begin(), out.end(), [&](const Tried* a, const Tried* b) {
          return survey_.is_far_over(*a) != survey_.is_far_over(*b)
                     ? survey_.is_far_over(*b)
                     : a->seconds() < b->seconds();
        });
  }
  return out;
}

// What the fastest takes that can only be taken by its estimate; infinite
// where none can.
double Selection::seconds_by_estimate() const {
  double least = std::numeric_limits<double>::infinity();
  for (const Tried& tried : tried_) {
    if (tried.reason.empty() && survey_.is_too_large(tried.candidate)) {
      least = std::min(least, tried.estimate.step_seconds);
    }
  }
  return least;
}

void Selection::simulate_in_order() {
  const double enough = kFarOff * seconds_by_estimate();
  for (Tried* tried : in_order()) {
    if (tried->estimate.step_seconds > enough &&
        !survey_.is_small(tried->candidate)) {
      continue;
    }
    const double least =
        std::max(tried->estimate.busy_seconds, tried->estimate.wire_seconds);
    if (tried->simulated_seconds || !can_win(tried->candidate, least) ||
        is_hopeless(*tried)) {
      continue;
    }
    if (survey_.size_of(tried->candidate) > left_ || clock_.is_out_of_time()) {
      is_proved_ = false;
      continue;
    }
    simulate_one(*tried);
  }
}

void Selection::simulate_one(Tried& tried) {
  left_ -= survey_.size_of(tried.candidate);
  try_out(tried);
  if (tried.simulated_bytes) {
    least_memory_share_ = std::min(
        least_memory_share_,
        static_cast<double>(*tried.simulated_bytes) /
            static_cast<double>(total(tried.estimate.memory)));
  }
  if (tried.reason.empty() && tried.simulated_seconds &&
      (best_simulated_ < 0 || *tried.simulated_seconds < best_simulated_)) {
    best_simulated_ = *tried.simulated_seconds;
  }
  if (!tried.reason.empty()) {
    reopen(tried.candidate.words);
  }
}

void Selection::try_out(Tried& tried) {
  clock_.say(cat("simulating ", print(tried.candidate)));
  ++simulated_;
  tried.is_doubtful = false;
  trials_.run(tried, survey_.is_small(tried.candidate));
}

// What is taken by its estimate may not fit: where that can be, it is lowered
// after all, and what would be taken in its place.
void Selection::confirm_best() {
  left_ = most_instructions_;
  while (true) {
    Tried& best = tried_.front();
    if (!best.reason.empty() || best.simulated_seconds ||
        survey_.size_of(best.candidate) > left_ || clock_.is_out_of_time()) {
      return;
    }
    simulate_one(best);
    sort();
  }
}

// What one of these words had settled, that does not fit after all: the next
// policy that seems to, and those before it.
void Selection::reopen(const Parallel& words) {
  for (Tried& tried : tried_) {
    if (!tried.is_settled || !(tried.candidate.words == words)) {
      continue;
    }
    survey_.look_at(tried, is_in_need_);
    has_more_ = true;
    if (tried.reason.empty() && !has_whole_layers(tried)) {
      break;
    }
  }
}

// What seemed to compute for too long beside an estimate that no simulated
// step has come up to.
void Selection::reopen_far_off() {
  const bool is_any =
      std::any_of(tried_.begin(), tried_.end(), [](const Tried& tried) {
        return tried.reason.empty();
      });
  if (best_simulated_ < 0 && is_any) {
    return;
  }
  for (Tried& tried : tried_) {
    if (tried.least_seconds > 0 && survey_.size_of(tried.candidate) <= left_ &&
        can_win(tried.candidate, tried.least_seconds)) {
      survey_.look_at(tried, is_in_need_);
      has_more_ = true;
    }
  }
}

// Making less again is no proof where stages wait for each other.
void Selection::reopen_near() {
  for (const Tried& near : tried_) {
    if (!near.reason.empty() || !survey_.is_small(near.candidate) ||
        near.simulated_seconds.value_or(kNear * best_simulated_ + 1) >
            kNear * best_simulated_) {
      continue;
    }
    for (Tried& tried : tried_) {
      if (tried.is_settled && tried.candidate.words == near.candidate.words) {
        survey_.look_at(tried, is_in_need_);
        has_more_ = true;
      }
    }
  }
}

// The simulator's word counts for more than the estimate's: who was not
// simulated is taken to be as far from its estimate as the best that was, and
// has to be clearly faster.
void Selection::sort() {
  const Tried* best = nullptr;
  for (const Tried& tried : tried_) {
    if (tried.reason.empty() && tried.simulated_seconds &&
        (best == nullptr ||
         *tried.simulated_seconds < *best->simulated_seconds)) {
      best = &tried;
    }
  }
  const double times = best == nullptr
                           ? 1
                           : *best->simulated_seconds /
                                 best->estimate.step_seconds / kWorthADoubt;
  const auto expected = [&](const Tried& tried) {
    return tried.simulated_seconds.value_or(
        times * tried.estimate.step_seconds);
  };
  std::stable_sort(
      tried_.begin(), tried_.end(), [&](const Tried& a, const Tried& b) {
        if (a.reason.empty() != b.reason.empty()) {
          return a.reason.empty();
        }
        if (a.is_doubtful != b.is_doubtful) {
          return a.is_doubtful;
        }
        if (a.is_doubtful && is_in_need_) {
          return total(a.estimate.memory) < total(b.estimate.memory);
        }
        return (a.reason.empty() || a.is_doubtful) && expected(a) < expected(b);
      });
}

}  // namespace weft
