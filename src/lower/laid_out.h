// SPDX-License-Identifier: Apache-2.0
// Where everything lies under a plan, before it becomes a program.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "lower/assignment.h"
#include "plan/plan.h"

#include <set>
#include <string>
#include <vector>

namespace weft {

// What read_parameters and propagate_layouts leave in a Lowering.
struct LaidOutStep {
  // The step as passes rewrite it for the plan; values of the graph that is
  // given keep their names.
  Graph graph;
  std::vector<Decision> reads = {};
  std::set<std::string> unexpanded = {};
  // By value of that step: as its node makes it, and where it lies from then
  // on.
  std::vector<Layout> layouts;
  std::vector<Layout> resting;
  // By node.
  std::vector<Assignment> assignments;
};

// What lowering would choose, but that nothing is made again and parameters are
// read as they are stored. The plan is on one stage, without axes of time, and
// verifies.
LaidOutStep lay_out(const Graph& graph, const Plan& plan);

}  // namespace weft
