// SPDX-License-Identifier: Apache-2.0
// Words whose layouts are searched: the plan with the layouts that the words
// stand for, or with those that take less time by the simulator.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct WordsPlan {
  Plan plan;
  // By the simulator; of the layouts that the words stand for, too, -1 where
  // these do not fit or are none.
  double step_seconds = 0;
  double words_seconds = -1;
  // Whether they are others than the words'.
  bool is_searched = false;
};

// Throws UserError unless there are words for `tensor`, one number, and none
// but `data`, `sequence`, `zero`, `pipeline`, `schedule` and `micro-batches`
// beside it.
void verify_for_layouts(const Parallel& words);

// The words with the layouts of a menu (layout_plan.h), at most so many.
std::vector<Plan> plans_of_menu(
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int most);

// Throws UserError as verify_for_layouts, and where nothing fits `budget_bytes`
// a rank.
WordsPlan plan_with_layouts(
    const Graph& graph,
    const Parallel& words,
    const Cluster& cluster,
    int64_t budget_bytes);

}  // namespace weft
