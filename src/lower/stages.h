// SPDX-License-Identifier: Apache-2.0
// Which stage of the pipeline does what.
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>
#include <vector>

namespace weft {

// For every node of the step its stage. Forward is cut where the plan says so;
// a node of backward goes with the module whose forward it belongs to; the
// optimizer updates a parameter in the first stage that reads it.
std::vector<int64_t> stages_of(const Function& step, const Plan& plan);

}  // namespace weft
