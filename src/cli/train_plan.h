// SPDX-License-Identifier: Apache-2.0
// How ranks share a step when nobody says it.
#pragma once

#include "cli/train_flags.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace weft {

// The plan that a run which goes on had found, or else what is fastest by what
// was measured of this machine; kept in the folder of --output for runs that
// go on from there. Throws UserError where nothing fits.
Plan found_plan(const TrainFlags& flags, const Graph& graph);

}  // namespace weft
