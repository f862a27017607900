// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "plan/plan.h"

#include <cstdint>

namespace weft {

// Lets backward make again as little of the units as `budget_bytes` a rank
// allow (rotor.h), by what they cost under the plan's words and by what the
// lowered program then takes. The words have no pipeline. Throws UserError when
// nothing fits, with what is needed at the least.
void set_recompute_by_rotor(
    Plan& plan,
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget_bytes);

}  // namespace weft
