// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/lap_timer.h"
#include "cli/measure.h"
#include "cluster/cluster.h"

#include <vector>

namespace weft {

// The groups that the ranks are in, innermost first: pairs of neighbours, fours
// and so on where they are clearly faster than larger ones, and all of them.
// Each has the link that its ranks find when all groups of that size exchange
// at a time. None for a rank that is alone.
std::vector<Group> measure_links(
    LapTimer& timer, const MeasureProgress& progress);

}  // namespace weft
