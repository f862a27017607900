// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

namespace weft {

// The plan for another step of the same model, such as the update after
// gradients were accumulated: without the lines that name nothing of it.
Plan plan_for_part(Plan plan, const Graph& graph);

// The same plan for a step that only goes forward, as evaluation does: without
// the lines that name nothing of it. For a step that trains, the plan itself.
Plan forward_plan(Plan plan, const Graph& graph);

}  // namespace weft
