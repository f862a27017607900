// SPDX-License-Identifier: Apache-2.0
#include "capture/optimizer.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace weft {
namespace {

struct State {
  std::string name;
  TensorType type;
};

const TensorType kCounter{DType::F32, {}, {}};
// As a number of Python's is: torch.optim computes with it before it rounds.
const TensorType kLearningRate{DType::F64, {}, {}};

bool is_on(const OptimizerGroup& group, const std::string& option) {
  const auto found = group.options.find(option);
  return found != group.options.end() && found->second != 0;
}

// What the optimizer keeps for a parameter, in the order of its node's
// operands.
std::vector<State> states_of(
    const std::string& kind,
    const OptimizerGroup& group,
    const TensorType& parameter) {
  if (kind == "sgd") {
    if (!is_on(group, "momentum")) {
      return {};
    }
    std::vector<State> states = {{"momentum_buffer", parameter}};
    // The first gradient is not dampened: a step has to know its number.
    if (is_on(group, "dampening")) {
      states.push_back({"step", kCounter});
    }
    return states;
  }
  if (kind == "adam" || kind == "adamw") {
    std::vector<State> states = {
        {"exp_avg", parameter}, {"exp_avg_sq", parameter}};
    if (is_on(group, "amsgrad")) {
      states.push_back({"max_exp_avg_sq", parameter});
    }
    states.push_back({"step", kCounter});
    return states;
  }
  if (kind == "adagrad") {
    return {{"sum", parameter}, {"step", kCounter}};
  }
  WEFT_CHECK_USER(
      !is_complex(parameter.dtype) || (kind != "lion" && kind != "adafactor"),
      "[capture] not supported: the optimizer ",
      kind,
      " with complex parameters, as in PyTorch. Use adam, or keep the real and "
      "the imaginary part as a real parameter (torch.view_as_complex)");
  if (kind == "lion") {
    return {{"exp_avg", parameter}};
  }
  if (kind == "adafactor") {
    const size_t ndim = parameter.sizes.size();
    if (ndim < 2) {
      return {{"variance", parameter}, {"step", kCounter}};
    }
    Dims rows = parameter.sizes;
    rows[ndim - 1] = 1;
    Dims columns = parameter.sizes;
    columns[ndim - 2] = 1;
    return {
        {"row_var", make_type(parameter.dtype, rows)},
        {"col_var", make_type(parameter.dtype, columns)},
        {"step", kCounter}};
  }
  throw UserError(
      cat("not supported: the optimizer ",
          kind,
          ". Weft knows sgd, adam, adamw, adagrad, adafactor and lion; use one "
          "of them, or leave the optimizer out to capture forward and "
          "backward alone"));
}

ValueId add_input(
    Function& step, NameTable& names, Input input, const TensorType& type) {
  input.value = add_value(step, names.unique("", input.keys.front()), type);
  step.inputs.push_back(input);
  return input.value;
}

// By key.
std::unordered_map<std::string, ValueId> parameters_of(const Function& step) {
  std::unordered_map<std::string, ValueId> out;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter) {
      out.emplace(input.keys.front(), input.value);
    }
  }
  return out;
}

}  // namespace

void add_optimizer(
    Function& step, NameTable& names, const OptimizerDescription& optimizer) {
  std::map<std::string, ValueId> gradients;
  for (const Output& output : step.outputs) {
    if (output.kind == OutputKind::Gradient) {
      gradients[output.key] = output.value;
    }
  }
  const std::unordered_map<std::string, ValueId> parameters =
      parameters_of(step);
  for (size_t g = 0; g < optimizer.groups.size(); ++g) {
    const OptimizerGroup& group = optimizer.groups[g];
    std::optional<ValueId> rate;
    for (const std::string& key : group.parameters) {
      const auto gradient = gradients.find(key);
      if (gradient == gradients.end()) {
        continue;
      }
      const auto found = parameters.find(key);
      WEFT_CHECK_USER(
          found != parameters.end(),
          "[capture] the optimizer holds a parameter that the model does not "
          "have: ",
          key);
      const ValueId parameter = found->second;
      const TensorType type = step[parameter].type;
      if (!rate) {
        const std::string name = cat("lr.", g);
        rate = add_input(
            step,
            names,
            {.kind = InputKind::Scalar, .keys = {name}, .trained = false},
            kLearningRate);
      }
      Node node;
      node.op = "weft." + optimizer.kind;
      node.phase = Phase::Optimizer;
      node.overwrites = parameter;
      node.args = {{parameter}, {gradient->second}};
      // "blocks.0.fc.weight" is `weight` of the module "blocks.0.fc".
      const size_t dot = key.rfind('.');
      const std::string path =
          dot == std::string::npos ? "" : key.substr(0, dot);
      const std::string stem =
          dot == std::string::npos ? key : key.substr(dot + 1);
      const auto result_name = [&](const std::string& part) {
        return names.unique(path, cat(stem, ".", part));
      };
      std::vector<std::string> result_names = {result_name(optimizer.kind)};
      std::vector<TensorType> types = {type};
      std::vector<std::string> state_keys;
      for (const State& state : states_of(optimizer.kind, group, type)) {
        const std::string state_key = cat(key, ".", state.name);
        node.args.push_back({add_input(
            step,
            names,
            {.kind = InputKind::State, .keys = {state_key}, .trained = false},
            state.type)});
        result_names.push_back(result_name(state.name));
        types.push_back(state.type);
        state_keys.push_back(state_key);
      }
      node.args.push_back({*rate});
      for (const auto& [name, value] : group.options) {
        if (name != "lr") {
          node.options.push_back({name, {value}});
        }
      }
      const NodeId id = add_node(step, std::move(node), result_names, types);
      const std::vector<ValueId> results = step.nodes[index(id)].results;
      step.outputs.push_back({OutputKind::Parameter, key, results.front()});
      for (size_t i = 0; i < state_keys.size(); ++i) {
        step.outputs.push_back(
            {OutputKind::State, state_keys[i], results[i + 1]});
      }
    }
  }
}

void add_learning_rates(Graph& graph, const OptimizerDescription& optimizer) {
  for (size_t group = 0; group < optimizer.groups.size(); ++group) {
    const auto& options = optimizer.groups[group].options;
    const auto found = options.find("lr");
    const double rate = found == options.end() ? 0 : found->second;
    Constant constant;
    constant.name = cat("lr.", group);
    constant.type = kLearningRate;
    constant.bytes.resize(sizeof(rate));
    std::memcpy(constant.bytes.data(), &rate, sizeof(rate));
    graph.constants.push_back(std::move(constant));
  }
}

}  // namespace weft
