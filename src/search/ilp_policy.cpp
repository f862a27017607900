// SPDX-License-Identifier: Apache-2.0
#include "search/ilp_policy.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/lower.h"
#include "program/live_bytes.h"
#include "search/again_choice.h"
#include "search/again_step.h"
#include "search/candidate.h"
#include "search/recompute_policy.h"
#include "search/sample.h"
#include "search/units.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace weft {
namespace {

// How often the room is put right by what a program takes.
constexpr int kRoomAttempts = 10;

StepAgain read_step(
    const Graph& graph,
    const Plan& plan,
    const Parallel& words,
    const Cluster& cluster) {
  const Function& step = step_of(graph);
  const Candidate candidate = {
      .words = words, .recompute = RecomputePolicy::None, .may_mix = false};
  const Program sample = lower_sample(
      graph,
      step_units(step),
      key_of(candidate, RecomputePolicy::None),
      cluster.device);
  return step_again(step, kept_from_transfers(graph, plan), sample, cluster);
}

// Room for the programme. What lowering adds to the peak that the programme
// sees is about the same for all choices, so each tells what the next may take.
class Room {
 public:
  Room(int64_t first, int64_t too_much) : now_(first), too_much_(too_much) {}

  int64_t bytes() const { return now_; }
  bool is_over() const { return is_over_; }

  // Nothing was found in it.
  void is_too_little() {
    least_ = now_;
    halve();
  }

  // What was found has this peak, and when lowered as much left of the budget;
  // negative: it lacks that.
  void learn(int64_t peak_bytes, int64_t left_bytes) {
    const int64_t next = peak_bytes + left_bytes;
    if (left_bytes >= 0) {
      least_ = now_;
      has_fit_ = true;
    } else {
      // In as much room the same would be found.
      too_much_ = peak_bytes;
    }
    if (least_ && next <= *least_) {
      is_over_ = has_fit_;
      if (!has_fit_) {
        halve();
      }
    } else if (next >= too_much_) {
      halve();
    } else {
      now_ = next;
    }
  }

 private:
  void halve() {
    now_ = *least_ + (too_much_ - *least_) / 2;
    is_over_ = now_ <= *least_;
  }

  int64_t now_ = 0;
  int64_t too_much_ = 0;
  // Fits, or is too little.
  std::optional<int64_t> least_;
  bool has_fit_ = false;
  bool is_over_ = false;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

bool set_recompute_by_ilp(
    Plan& plan,
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget_bytes) {
  WEFT_CHECK_USER(
      words.pipeline == 1,
      "--recompute ilp is for one stage; with a pipeline let the search "
      "choose");
  const Function& step = step_of(graph);
  set_recompute(plan, step, {});
  int64_t least = peak_bytes(lower(graph, plan));
  if (least <= budget_bytes) {
    return true;
  }
  const StepAgain again = read_step(graph, plan, words, cluster);
  const std::vector<bool> choices = again.step.choices();
  const int64_t count = std::count(choices.begin(), choices.end(), true);
  WEFT_CHECK_USER(
      count <= kMostIlpChoices,
      "--recompute ilp chooses among up to ",
      kMostIlpChoices,
      " values that backward reads, and this step has ",
      count,
      ": take --recompute rotor, which chooses among layers");
  const int64_t all = play_again(again.step, choices).peak_bytes;
  Room room(all - (least - budget_bytes), all);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] { return seconds_since(begin) >= kIlpSeconds; };
  std::optional<Plan> best;
  bool is_sure = true;
  for (int attempt = 0;
       attempt < kRoomAttempts && !room.is_over() && !is_late();
       ++attempt) {
    const std::optional<AgainChoice> choice = choose_again(
        again.step, room.bytes(), kIlpSeconds - seconds_since(begin));
    if (!choice) {
      room.is_too_little();
      continue;
    }
    is_sure = is_sure && !choice->is_in_doubt;
    set_recompute(plan, step, names_again(step, again, *choice));
    const int64_t peak = peak_bytes(lower(graph, plan));
    least = std::min(least, peak);
    if (peak <= budget_bytes) {
      best = plan;
    }
    room.learn(choice->peak_bytes, budget_bytes - peak);
  }
  WEFT_CHECK_USER(
      best.has_value(),
      "--recompute ilp finds nothing ",
      is_late() ? cat("in ", kIlpSeconds, " s ") : "",
      "that fits ",
      human_bytes(static_cast<double>(budget_bytes)),
      " a rank; the least it came to is ",
      human_bytes(static_cast<double>(least)),
      ": give more memory, more ranks, or zero=3");
  plan = *best;
  return is_sure && !is_late();
}

}  // namespace weft
