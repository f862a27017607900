// SPDX-License-Identifier: Apache-2.0
// Which candidates are lowered and simulated: in the order of their estimates,
// until none that is left can be faster, as a rank computes, or its wires are
// taken, for longer than the best takes in all. What is too large for that is
// taken by its estimate.
#pragma once

#include "search/search.h"
#include "search/search_clock.h"
#include "search/survey.h"
#include "search/trial.h"

#include <cstdint>
#include <vector>

namespace weft {

class Selection {
 public:
  // Of `tried`, all of which `survey` has seen. Keeps references to all of
  // them. `most_instructions` as in SearchOptions.
  Selection(
      std::vector<Tried>& tried,
      const Survey& survey,
      Trials& trials,
      SearchClock& clock,
      int64_t most_instructions)
      : tried_(tried),
        survey_(survey),
        trials_(trials),
        clock_(clock),
        most_instructions_(most_instructions) {}

  // Leaves them in the order of SearchResult::tried.
  void run();

  void try_out(Tried& tried);
  void sort();

  // As in SearchResult.
  bool is_proved() const { return is_proved_; }
  int64_t simulated() const { return simulated_; }

 private:
  bool look_further();
  bool can_win(const Candidate& candidate, double least_seconds) const;
  bool is_hopeless(const Tried& tried) const;
  std::vector<Tried*> in_order();
  double seconds_by_estimate() const;
  void simulate_in_order();
  void simulate_one(Tried& tried);
  void confirm_best();
  void reopen(const Parallel& words);
  void reopen_far_off();
  void reopen_near();

  std::vector<Tried>& tried_;
  const Survey& survey_;
  Trials& trials_;
  SearchClock& clock_;
  const int64_t most_instructions_;
  bool is_proved_ = false;
  int64_t simulated_ = 0;
  // What may still be lowered and simulated.
  int64_t left_ = 0;
  // The least so far; -1: none.
  double best_simulated_ = -1;
  // Candidates came back that were not looked at before.
  bool has_more_ = false;
  // Nothing that was lowered fits.
  bool is_in_need_ = false;
  // Of what was lowered, what a rank needs to what was estimated, the least.
  double least_memory_share_ = 1;
};

}  // namespace weft
