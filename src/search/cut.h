// SPDX-License-Identifier: Apache-2.0
// Cuts a step into the stages of a candidate.
#pragma once

#include "search/candidate.h"
#include "search/stage.h"
#include "search/units.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// Where a stage may end.
struct Cuts {
  // Before which units; last, behind all of them.
  std::vector<int32_t> places;

  int64_t most_stages() const { return static_cast<int64_t>(places.size()); }
  int32_t units() const { return places.back(); }
};
Cuts cuts_of(const StepUnits& units);

// Each stage fits the budget with as few units made again whole as will do, and
// the slowest is as fast as may be: exactly, over all cuts, where a position
// has one stage. The cuts allow as many stages as the candidate has. None:
// nothing fits.
std::optional<std::vector<Stage>> cut_stages(
    const Candidate& candidate,
    const StageCosts& costs,
    const Cuts& cuts,
    int64_t budget_bytes);

}  // namespace weft
