// SPDX-License-Identifier: Apache-2.0
// Graphs made at random from a seed, for tests that hold for every graph. They
// verify; what their nodes compute makes no sense.
#pragma once

#include "graph/graph.h"

namespace weft {

struct RandomGraphOptions {
  uint32_t seed = 0;
  int nodes = 40;
  // The chance that a node repeats an earlier one: food for rewriting passes.
  double repeat = 0.2;
};

Graph random_graph(const RandomGraphOptions& options);

}  // namespace weft
