// SPDX-License-Identifier: Apache-2.0
#include "search/survey.h"

#include "base/text.h"
#include "profile/text_table.h"
#include "search/refusal.h"
#include "search/search_print.h"
#include "search/trial.h"

#include <algorithm>

namespace weft {
namespace {

// So much more than there is may turn out to fit.
constexpr double kDoubtful = 1.3;
// A candidate that small is lowered rather than doubted, where what stays from
// step to step fits.
constexpr int64_t kSmallSize = 1000;
constexpr double kAnyTimes = 1000;
// Of the memory, what a candidate may take by its estimate that will not be
// lowered: most estimates are no further below what lowering finds.
constexpr double kTrusted = 0.96;

}  // namespace

Tried Survey::next(const Candidate& candidate) {
  Tried tried = {.candidate = candidate};
  Parallel words = candidate.words;
  if (!(words == words_)) {
    words_ = words;
    fitting_ = std::nullopt;
  }
  words.micro_batches = 1;
  const std::string key = cat(print(words), " ", name(candidate.recompute));
  const auto rejected = rejected_.find(key);
  const int64_t micro = candidate.words.micro_batches;
  if (fitting_) {
    tried.reason =
        cat("recompute=", name(*fitting_), " fits, and makes less again");
    tried.is_settled = true;
    return tried;
  }
  tried.reason = estimator_.refusal(candidate);
  if (!tried.reason.empty()) {
    return tried;
  }
  // All at once need no room to sum gradients up.
  const bool sums_up = micro > 1 || words.pipeline > 1;
  if (rejected != rejected_.end() && micro < rejected->second && sums_up &&
      !is_small(candidate)) {
    tried.reason =
        cat("micro-batches=", rejected->second, " needs too much already");
    return tried;
  }
  // First what is known without a sample of the candidate's own.
  if (is_ruled_out(tried)) {
    rejected_[key] = micro;
    return tried;
  }
  const double least = best_seconds_ > 0 ? least_seconds(candidate) : 0;
  if (least > best_seconds_) {
    tried.reason =
        cat("a rank computes for ",
            seconds_text(least),
            " at the least, and another takes ",
            seconds_text(best_seconds_),
            " in all");
    tried.least_seconds = least;
    return tried;
  }
  if (candidate.may_mix && is_too_much_in_full(tried)) {
    rejected_[key] = micro;
    return tried;
  }
  look_at(tried, false);
  if (tried.reason.empty()) {
    best_seconds_ = best_seconds_ > 0
                        ? std::min(best_seconds_, tried.estimate.step_seconds)
                        : tried.estimate.step_seconds;
    if (candidate.recompute != RecomputePolicy::Full &&
        !has_whole_layers(tried)) {
      fitting_ = candidate.recompute;
    }
  }
  if (!tried.reason.empty() && !tried.is_doubtful &&
      tried.estimate.needed_bytes > 0) {
    rejected_[key] = micro;
  }
  return tried;
}

// By a bound that others share, if that will do: what is lowered for its sake
// serves them, too. Recomputation only adds to what a rank computes.
double Survey::least_seconds(const Candidate& candidate) const {
  const double floor = estimator_.floor_seconds(candidate);
  if (floor > best_seconds_) {
    return floor;
  }
  Candidate kept = candidate;
  kept.recompute = RecomputePolicy::None;
  const double without = estimator_.least_seconds(kept);
  if (without > best_seconds_) {
    return without;
  }
  return estimator_.least_seconds(candidate);
}

std::string Survey::of_budget(int64_t bytes) const {
  return cat(
      human_bytes(static_cast<double>(bytes)),
      " of ",
      human_bytes(static_cast<double>(budget_bytes_)));
}

// Whether what stays from step to step is too much already.
bool Survey::is_ruled_out(Tried& tried) const {
  const int64_t least = estimator_.floor_bytes(tried.candidate);
  if (least <= budget_bytes_) {
    return false;
  }
  tried = {.candidate = tried.candidate};
  tried.estimate.needed_bytes = least;
  tried.is_bound = true;
  tried.reason =
      cat("parameters and optimizer states alone need ", of_budget(least));
  return true;
}

// Whether it needs far too much even where every layer is recomputed.
bool Survey::is_too_much_in_full(Tried& tried) const {
  if (is_small(tried.candidate)) {
    return false;
  }
  Candidate full = tried.candidate;
  full.recompute = RecomputePolicy::Full;
  full.may_mix = false;
  const Estimate least = estimator_.estimate(
      full,
      static_cast<int64_t>(kDoubtful * static_cast<double>(budget_bytes_)));
  if (least.reason.empty() || least.needed_bytes == 0) {
    return false;
  }
  tried.estimate.needed_bytes = least.needed_bytes;
  tried.is_bound = true;
  tried.reason =
      cat("recompute=full needs ", of_budget(least.needed_bytes), " already");
  return true;
}

void Survey::look_at(Tried& tried, bool is_in_need) const {
  if (!is_ruled_out(tried)) {
    look(tried, is_in_need);
  }
}

void Survey::look_closely(Tried& tried) const {
  tried.is_bound = false;
  look(tried, false);
}

void Survey::look(Tried& tried, bool is_in_need) const {
  const std::string refusal = refusal_of([&] { estimate(tried, is_in_need); });
  if (!refusal.empty()) {
    tried = {.candidate = tried.candidate, .reason = refusal};
  }
}

void Survey::estimate(Tried& tried, bool is_in_need) const {
  const bool is_trusted =
      most_instructions_ > 0 && is_too_large(tried.candidate);
  tried.estimate = estimator_.estimate(
      tried.candidate,
      is_trusted
          ? static_cast<int64_t>(kTrusted * static_cast<double>(budget_bytes_))
          : budget_bytes_);
  tried.reason = tried.estimate.reason;
  if (is_trusted && tried.estimate.needed_bytes > 0) {
    tried.reason +=
        cat(", which is what an estimate may take of ",
            human_bytes(static_cast<double>(budget_bytes_)));
  }
  tried.is_settled = false;
  tried.least_seconds = 0;
  if (tried.estimate.needed_bytes > 0) {
    doubt(tried, is_in_need);
  }
}

bool Survey::is_too_large(const Candidate& candidate) const {
  return size_of(candidate) > most_instructions_;
}

void Survey::doubt(Tried& tried, bool is_in_need) const {
  const double times =
      is_small(tried.candidate) || is_in_need ? kAnyTimes : kDoubtful;
  const Estimate more = estimator_.estimate(
      tried.candidate,
      static_cast<int64_t>(times * static_cast<double>(budget_bytes_)));
  const int64_t stays = more.memory.parameter_bytes + more.memory.state_bytes;
  if (more.reason.empty() && stays <= budget_bytes_) {
    const int64_t needed = tried.estimate.needed_bytes;
    tried.estimate = more;
    tried.estimate.needed_bytes = needed;
    tried.is_doubtful = true;
  }
}

bool Survey::is_far_over(const Tried& tried) const {
  return static_cast<double>(tried.estimate.needed_bytes) >
         kDoubtful * static_cast<double>(budget_bytes_);
}

int64_t Survey::size_of(const Candidate& candidate) const {
  return nodes_ * ranks_ / candidate.words.pipeline *
         candidate.words.micro_batches;
}

bool Survey::is_small(const Candidate& candidate) const {
  return size_of(candidate) <= kSmallSize;
}

}  // namespace weft
