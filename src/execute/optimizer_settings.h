// SPDX-License-Identifier: Apache-2.0
// An optimizer node as numbers.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>

namespace weft {

enum class OptimizerKind : uint8_t { Sgd, Adam, Adagrad, Adafactor, Lion };

// The options of the node, under torch.optim's names and with its defaults.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::Sgd;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  double lr_decay = 0;
  double d = 1;
  double beta2_decay = -0.8;
  // None: the epsilon of the parameter's element type.
  std::optional<double> eps1;
  double eps2 = 1e-3;
  bool amsgrad = false;
  bool maximize = false;
  bool nesterov = false;
  bool decoupled_weight_decay = false;
  // The user asked for PyTorch's fused kernels, whose rounding is another.
  bool fused = false;
  // Operands between the gradient and the learning rate.
  size_t state_count = 0;
  // The last of them counts the steps made.
  bool has_step = false;
  // The last operand is a flag: when it is not 0, nothing changes.
  bool has_skip = false;
};

// True for `weft.adamw` and its like: optimizer_settings knows them.
bool has_optimizer_kernel(const Node& node);

// Throws UserError for an optimizer that has no kernel, or operands that are
// not those of its options.
OptimizerSettings optimizer_settings(
    const Function& function, const Node& node);

// What every element of the node's i-th state is before the first step.
double initial_state(const Node& node, size_t state);

}  // namespace weft
