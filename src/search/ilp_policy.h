// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "plan/plan.h"

#include <cstdint>

namespace weft {

// So many values may be kept or made again; with more, the programme would take
// minutes.
inline constexpr int64_t kMostIlpChoices = 64;
inline constexpr double kIlpSeconds = 60;

// Lets backward make again values that take the least time, as `budget_bytes` a
// rank ask for (again_choice.h): any values, whichever layer they are of. By
// what they cost under the plan's words and by what the lowered program then
// takes. The words have no pipeline. False: it fits, but time ran out before it
// was shown that nothing takes less. Throws UserError where the step is too
// large for that, and when nothing fits, with what is needed at the least.
bool set_recompute_by_ilp(
    Plan& plan,
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget_bytes);

}  // namespace weft
