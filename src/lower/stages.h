// SPDX-License-Identifier: Apache-2.0
// Which stage of the pipeline does what.
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>
#include <vector>

namespace weft {

inline constexpr int64_t kNoStage = -1;

// Forward is cut where the plan says so; a node of backward goes with the
// module whose forward it belongs to, or, where that is not known, stays with
// what it reads. What stays from step to step is kept, and a parameter updated,
// in the first stage whose forward reads it, or where the plan says, so that
// training and evaluation find it in the same place.
struct StageMap {
  // By node of the step.
  std::vector<int64_t> nodes;
  // By value; kNoStage for what is no input, and for an input that forward does
  // not read.
  std::vector<int64_t> inputs;
};
StageMap stages_of(const Function& step, const Plan& plan);

}  // namespace weft
