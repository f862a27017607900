// SPDX-License-Identifier: Apache-2.0
// A step put together from the stages that it is cut into.
#pragma once

#include "cluster/cluster.h"
#include "search/candidate.h"
#include "search/stage.h"
#include "search/unit_table.h"

#include <vector>

namespace weft {

// Among ranks that share the parameters, and to the next stage.
struct StageLinks {
  const Link* data = nullptr;
  const Link* next = nullptr;
};

// What the busiest rank computes and waits in bubbles at the least, where a
// micro-batch takes so long on all stages together and these are alike.
double least_seconds(const Parallel& words, double micro_batch_seconds);

// `base` is what the units cost under the candidate's own policy.
Estimate compose(
    const Candidate& candidate,
    const StageLinks& links,
    const UnitTable& base,
    const std::vector<Stage>& stages);

}  // namespace weft
