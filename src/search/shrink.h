// SPDX-License-Identifier: Apache-2.0
// A step with fewer copies of its layers, that stands for the whole one.
#pragma once

#include "graph/graph.h"
#include "search/units.h"

#include <cstdint>
#include <vector>

namespace weft {

// Copies of a run of equal units that stay: the first and the last, which may
// differ from those between them, and the second, for all that follow. Where
// the last has another backward, the one before it stays, too.
inline constexpr int32_t kCopiesKept = 3;

struct ShrunkStep {
  // With the function `step` alone, and no modules; names are those of the
  // whole step.
  Graph graph;
  StepUnits units;
  // By unit of the whole step, the unit of `units` that costs as much.
  std::vector<int32_t> stands_for;
};

// Runs of more than kCopiesKept equal units lose those in the middle, forward,
// backward and update; the unit after them takes what the one before them
// gives, and so it is with gradients. A run whose copies turn out to differ in
// backward stays as it is.
ShrunkStep shrink(const Graph& graph, const StepUnits& units);

}  // namespace weft
