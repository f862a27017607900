// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// A place where a stage may begin: a module begins, and less crosses than at
// the places beside it, or as much.
struct StageCut {
  // Of forward.
  NodeId node = NodeId::None;
  // What a `stage` line says.
  std::string pattern;
};
// In order. The start of forward is none.
std::vector<StageCut> stage_cuts(const Function& step);

// By node of the step, what a `stage` line says to begin there: the shortest
// pattern of a module whose first value of forward the node makes, so that it
// holds for other shapes of the batch and for evaluation too; "" where there is
// none.
std::vector<std::string> stage_patterns(const Function& step);

// Where to cut forward into that many stages, so that the costliest is as cheap
// as may be: its operations, and what it has to be sent. Throws UserError when
// forward has too few nodes.
std::vector<StageStart> balanced_stages(const Function& step, int64_t stages);

}  // namespace weft
