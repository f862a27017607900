// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>
#include <vector>

namespace weft {

// Where to cut forward into that many stages, so that the costliest is as cheap
// as may be: its operations, and what it has to be sent. Throws UserError when
// forward has too few nodes.
std::vector<StageStart> balanced_stages(const Function& step, int64_t stages);

}  // namespace weft
