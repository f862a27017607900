// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "program/program.h"
#include "search/again_choice.h"

#include <set>
#include <string>
#include <vector>

namespace weft {

// What to keep and what to make again, of a step.
struct StepAgain {
  AgainStep step;
  // By storage, the value that it is.
  std::vector<ValueId> values;
};

// Sizes, seconds, the order after forward and what else lives are those of
// `sample`, the step as lowered for one rank with nothing made again
// (lower_sample): with all kept, the bytes of every call and moment are its
// own. Values of `exchanged`, by name, and those too small to matter are kept.
StepAgain step_again(
    const Function& step,
    const std::set<std::string>& exchanged,
    const Program& sample,
    const Cluster& cluster);

// The names of what a choice makes again, for `recompute` lines.
std::vector<std::string> names_again(
    const Function& step, const StepAgain& again, const AgainChoice& choice);

}  // namespace weft
