// SPDX-License-Identifier: Apache-2.0
#include "execute/optimizer_settings.h"

#include "base/error.h"
#include "ops/call.h"

#include <map>
#include <string_view>

namespace weft {
namespace {

const std::map<std::string_view, OptimizerKind>& kinds() {
  static const std::map<std::string_view, OptimizerKind> table = {
      {"weft.sgd", OptimizerKind::Sgd},
      {"weft.adam", OptimizerKind::Adam},
      {"weft.adamw", OptimizerKind::Adam},
      {"weft.adagrad", OptimizerKind::Adagrad},
      {"weft.adafactor", OptimizerKind::Adafactor},
      {"weft.lion", OptimizerKind::Lion},
  };
  return table;
}

bool is_on(const Node& node, std::string_view name) {
  return number_option(node, name, 0) != 0;
}

// How many states the optimizer keeps for a parameter, its counter of steps
// left out.
size_t tensor_states(
    const OptimizerSettings& settings, const TensorType& parameter) {
  switch (settings.kind) {
    case OptimizerKind::Sgd:
      return settings.momentum != 0 ? 1 : 0;
    case OptimizerKind::Adam:
      return settings.amsgrad ? 3 : 2;
    case OptimizerKind::Adafactor:
      return parameter.sizes.size() < 2 ? 1 : 2;
    case OptimizerKind::Adagrad:
    case OptimizerKind::Lion:
      return 1;
  }
  WEFT_CHECK(false);
}

// SGD counts only where its first step is unlike the others.
bool counts_steps(const OptimizerSettings& settings) {
  switch (settings.kind) {
    case OptimizerKind::Sgd:
      return settings.momentum != 0 && settings.dampening != 0;
    case OptimizerKind::Lion:
      return false;
    default:
      return true;
  }
}

}  // namespace

bool has_optimizer_kernel(const Node& node) {
  return kinds().contains(node.op);
}

OptimizerSettings optimizer_settings(
    const Function& function, const Node& node) {
  const auto kind = kinds().find(node.op);
  WEFT_CHECK_USER(
      kind != kinds().end(), node.op, " is no optimizer that Weft can run");
  OptimizerSettings s;
  s.kind = kind->second;
  const auto read = [&](std::string_view name, double& value) {
    value = number_option(node, name, value);
  };
  s.eps = s.kind == OptimizerKind::Adagrad ? 1e-10 : 1e-8;
  if (s.kind == OptimizerKind::Lion) {
    s.beta2 = 0.99;
  }
  read("beta1", s.beta1);
  read("beta2", s.beta2);
  read("eps", s.eps);
  read("weight_decay", s.weight_decay);
  read("momentum", s.momentum);
  read("dampening", s.dampening);
  read("lr_decay", s.lr_decay);
  read("d", s.d);
  read("beta2_decay", s.beta2_decay);
  read("eps2", s.eps2);
  if (find_option(node, "eps1") != nullptr) {
    s.eps1 = number_option(node, "eps1", 0);
  }
  s.amsgrad = is_on(node, "amsgrad");
  s.maximize = is_on(node, "maximize");
  s.nesterov = is_on(node, "nesterov");
  s.decoupled_weight_decay =
      node.op == "weft.adamw" || is_on(node, "decoupled_weight_decay");
  s.fused = is_on(node, "fused");
  s.has_skip = find_option(node, "skip") != nullptr;
  s.has_step = counts_steps(s);
  s.state_count =
      tensor_states(s, type_arg(function, node, 0)) + (s.has_step ? 1 : 0);
  WEFT_CHECK_USER(
      node.args.size() == s.state_count + 3 &&
          node.results.size() == s.state_count + 1,
      "%",
      function[node.results.front()].name,
      ": ",
      node.op,
      " with these options takes ",
      s.state_count + 3,
      " tensors (parameter, gradient, ",
      s.state_count,
      " of state, learning rate) and gives ",
      s.state_count + 1,
      "; it has ",
      node.args.size(),
      " and ",
      node.results.size(),
      ". Capture the model again");
  return s;
}

double initial_state(const Node& node, size_t state) {
  return node.op == "weft.adagrad" && state == 0
             ? number_option(node, "initial_accumulator_value", 0)
             : 0;
}

}  // namespace weft
