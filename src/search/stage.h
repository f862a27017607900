// SPDX-License-Identifier: Apache-2.0
// What a stage of a candidate takes: its units' time for every micro-batch, and
// memory for what they keep of all micro-batches that are under way.
#pragma once

#include "plan/schedule.h"
#include "search/candidate.h"
#include "search/unit_table.h"

#include <cstdint>
#include <vector>

namespace weft {

// Units [begin, end).
struct Stage {
  int32_t begin = 0;
  int32_t end = 0;
  // Units from `begin` on that are made again whole.
  int32_t whole_again = 0;
  UnitCost cost;
  MemoryParts memory;

  double seconds() const {
    return cost.forward_seconds + cost.backward_seconds;
  }
};

// Of a position that has another stage: temporaries are one stage's at a time.
void add_stage(MemoryParts& to, const MemoryParts& stage);

// The bytes of parameters and optimizer states that a rank holds of units with
// this cost, after ZeRO has split them over `data`.
int64_t staying_bytes(const Parallel& words, const UnitCost& cost);

class StageCosts {
 public:
  // Keeps references to all of them. `base` is of the candidate's own policy,
  // `whole` of units that are made again whole.
  StageCosts(
      const Candidate& candidate, const UnitTable& base, const UnitTable& whole)
      : words_(candidate.words),
        base_(base),
        whole_(whole),
        in_flight_(in_flight(candidate.words)) {}

  const UnitTable& base() const { return base_; }

  // As the stage of that number, in the order of the step.
  Stage stage(
      int32_t begin, int32_t end, int32_t whole_again, int64_t number) const;

 private:
  static std::vector<InFlight> in_flight(const Parallel& words);
  int64_t kept_bytes(const UnitCost& cost, int64_t stage) const;
  MemoryParts memory(const UnitCost& cost, int64_t stage) const;
  MemoryParts memory_during(const UnitCost& cost, int64_t stage) const;
  MemoryParts memory_at_end(const UnitCost& cost) const;

  const Parallel& words_;
  const UnitTable& base_;
  const UnitTable& whole_;
  // By position, of one of its stages.
  const std::vector<InFlight> in_flight_;
};

}  // namespace weft
