// SPDX-License-Identifier: Apache-2.0
// The layouts of all values of a step for which a micro-batch takes the least
// time, as lines of a plan.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/choice_problem.h"
#include "search/shrink.h"

#include <cstdint>
#include <vector>

namespace weft {

// How many ranks share what.
struct LayoutQuestion {
  // Into how many parts the batch is cut, over ranks and over time; of these,
  // how many one rank does one after the other.
  int64_t batch_parts = 1;
  int64_t micro_batches = 1;
  // Ranks that share a micro-batch, along an axis called `tensor`.
  int64_t tensor = 1;
};

struct SearchedLayouts {
  // One a value of the step by its name, on <data=N, tensor=M>: all inputs that
  // are split, and those of other values that lowering would not choose by
  // itself.
  std::vector<Decision> decisions;
  // Of one micro-batch, as LayoutCosts has it; and the bytes of parameters,
  // gradients, states and what forward leaves for backward, on one rank.
  double seconds = 0;
  double bytes = 0;
  bool is_proved = true;
  bool is_relaxed = false;
};

// For the whole step of `graph`, by the shrunk one that stands for it: first
// the layouts that take the least time; then, as long as there are any, others
// that hold less and take longer, `most` in all. Of those between them, none
// holds as little and is as fast, but some may lie between (they are the
// corners of a convex curve). Nothing where the axis can split nothing.
std::vector<SearchedLayouts> layout_menu(
    const Graph& graph,
    const ShrunkStep& shrunk,
    const Cluster& cluster,
    const LayoutQuestion& question,
    int most = 1);

}  // namespace weft
