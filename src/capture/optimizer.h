// SPDX-License-Identifier: Apache-2.0
// The optimizer is not recorded (its step count would be baked in): it is
// described, and becomes typed nodes, one a parameter.
#pragma once

#include "graph/graph.h"

#include <map>
#include <string>
#include <vector>

namespace weft {

// One parameter group of a torch.optim optimizer.
struct OptimizerGroup {
  // By name, as in torch: lr, weight_decay, eps, beta1, beta2, momentum...;
  // switches are 0 or 1.
  std::map<std::string, double> options;
  // The first name of each parameter.
  std::vector<std::string> parameters;
};

struct OptimizerDescription {
  // The class in lower case: sgd, adam, adamw, adagrad, adafactor, lion.
  std::string kind;
  std::vector<OptimizerGroup> groups;
};

// Appends the optimizer phase to `step`: inputs for the state and the learning
// rates, one node a parameter that has a gradient, outputs for the new
// parameters and the new state. `names` has those of the step's values. Throws
// UserError "not supported: ..." for a kind or an option that has no node.
void add_optimizer(
    Function& step, NameTable& names, const OptimizerDescription& optimizer);

// The learning rates of the groups, as the constants "lr.0", "lr.1"...: what a
// schedule multiplies.
void add_learning_rates(Graph& graph, const OptimizerDescription& optimizer);

}  // namespace weft
