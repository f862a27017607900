// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

namespace weft {

// The plan for a part of the step of `whole`, which it is for: without the
// lines that name nothing of the part. States that only the part has, such as
// accumulated gradients, lie as the other states of their parameter do.
Plan plan_for_part(Plan plan, const Graph& whole, const Graph& part);

// The same plan for a step that only goes forward, as evaluation does: without
// the lines that name nothing of it. For a step that trains, the plan itself.
Plan forward_plan(Plan plan, const Graph& graph);

}  // namespace weft
