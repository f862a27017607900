// SPDX-License-Identifier: Apache-2.0
// Candidates one after the other, by estimates alone: what others have settled
// is not looked at, and what nearly fits is left to be doubted.
#pragma once

#include "search/estimate.h"
#include "search/search.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace weft {

class Survey {
 public:
  // Keeps a reference to the estimator, which is of the step and the cluster.
  // What is larger than `most_instructions` will not be lowered; 0: nothing is.
  Survey(
      Estimator& estimator,
      const Function& step,
      int64_t ranks,
      int64_t budget_bytes,
      int64_t most_instructions)
      : estimator_(estimator),
        nodes_(static_cast<int64_t>(step.nodes.size())),
        ranks_(ranks),
        budget_bytes_(budget_bytes),
        most_instructions_(most_instructions) {}

  // The next candidate. Where others of the same words have settled it, without
  // a look.
  Tried next(const Candidate& candidate);

  // Where only a bound of its memory is known: all that it needs.
  void look_closely(Tried& tried) const;

  // Estimates it, whatever was said of it before. `is_in_need`: as nothing
  // fits, whatever might is doubted rather than rejected.
  void look_at(Tried& tried, bool is_in_need) const;

  // One that fits was met.
  bool has_fit() const { return best_seconds_ > 0; }

  // Instructions of all ranks, roughly.
  int64_t size_of(const Candidate& candidate) const;
  // Lowered quickly.
  bool is_small(const Candidate& candidate) const;
  // Larger than anything that is lowered.
  bool is_too_large(const Candidate& candidate) const;
  // Needs more than is doubted where there is no need to.
  bool is_far_over(const Tried& tried) const;

 private:
  double least_seconds(const Candidate& candidate) const;
  bool is_ruled_out(Tried& tried) const;
  bool is_too_much_in_full(Tried& tried) const;
  std::string of_budget(int64_t bytes) const;
  void look(Tried& tried, bool is_in_need) const;
  void estimate(Tried& tried, bool is_in_need) const;
  void doubt(Tried& tried, bool is_in_need) const;

  Estimator& estimator_;
  const int64_t nodes_;
  const int64_t ranks_;
  const int64_t budget_bytes_;
  const int64_t most_instructions_;
  // The least step of those that fit so far; 0: none does.
  double best_seconds_ = 0;
  // Of the words that are being looked at, the first policy that needs no layer
  // made again whole.
  std::optional<RecomputePolicy> fitting_;
  Parallel words_;
  // By words but for micro-batches, their number with which even Full is too
  // much: fewer of them are larger.
  std::map<std::string, int64_t> rejected_;
};

}  // namespace weft
