// SPDX-License-Identifier: Apache-2.0
#include "rewrite/step_builder.h"

#include "base/error.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace weft {

bool is_optimizer_step(const Node& node) {
  return node.phase == Phase::Optimizer && node.op.starts_with("weft.");
}

Function& step_with_optimizer(Graph& graph, std::string_view what_for) {
  Function* step = find_function(graph, "step");
  WEFT_CHECK_USER(
      step != nullptr &&
          std::any_of(
              step->nodes.begin(), step->nodes.end(), is_optimizer_step),
      "graph @",
      graph.name,
      " has no optimizer, and ",
      what_for,
      " needs one: capture the model with its optimizer");
  return *step;
}

std::vector<GradientUse> gradient_uses(const Function& step) {
  std::unordered_map<std::string, ValueId> returned;
  for (const Output& output : step.outputs) {
    if (output.kind == OutputKind::Gradient) {
      returned[output.key] = output.value;
    }
  }
  std::vector<NodeId> optimizers(step.values.size(), NodeId::None);
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (is_optimizer_step(step.nodes[i])) {
      optimizers[index(operands(step.nodes[i])[0])] = static_cast<NodeId>(i);
    }
  }
  std::vector<GradientUse> uses;
  for (const Input& input : step.inputs) {
    if (input.kind != InputKind::Parameter) {
      continue;
    }
    const std::string& key = input.keys.front();
    const NodeId optimizer = optimizers[index(input.value)];
    if (optimizer != NodeId::None) {
      uses.push_back(
          {key, operands(step.nodes[index(optimizer)])[1], optimizer});
    } else if (const auto found = returned.find(key); found != returned.end()) {
      uses.push_back({key, found->second, NodeId::None});
    }
  }
  return uses;
}

ValueId loss_of(const Function& step) {
  for (const Output& output : step.outputs) {
    if (output.kind == OutputKind::Loss) {
      return output.value;
    }
  }
  throw UserError("the step returns no loss");
}

NodeId backward_start(const Function& step) {
  const ValueId loss = loss_of(step);
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    const Node& node = step.nodes[i];
    if (node.phase == Phase::Backward && node.op == "aten.ones_like" &&
        operands(node)[0] == loss) {
      return static_cast<NodeId>(i);
    }
  }
  throw UserError(
      cat("no node starts the backward of the loss %",
          step[loss].name,
          " with aten.ones_like: the loss was scaled already, or the graph was "
          "not captured with its backward"));
}

TensorType one_number() { return make_type(DType::F32, {}); }

StepBuilder::StepBuilder(Function& step) : step_(step), names_(step) {}

ValueId StepBuilder::add(
    Node node, std::string_view path, std::string_view local, TensorType type) {
  node.phase = Phase::Optimizer;
  add_node(
      step_, std::move(node), {names_.unique(path, local)}, {std::move(type)});
  added_.push_back(std::move(step_.nodes.back()));
  step_.nodes.pop_back();
  return added_.back().results.front();
}

ValueId StepBuilder::add_for(
    Node node,
    const std::string& key,
    const std::string& part,
    TensorType type) {
  const size_t dot = key.rfind('.');
  const std::string path = dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string stem = dot == std::string::npos ? key : key.substr(dot + 1);
  return add(std::move(node), path, cat(stem, ".", part), std::move(type));
}

ValueId StepBuilder::add_input(
    InputKind kind, const std::string& key, TensorType type) {
  const ValueId value =
      add_value(step_, names_.unique("", key), std::move(type));
  step_.inputs.push_back({value, kind, {key}, false});
  return value;
}

void StepBuilder::skip_by(ValueId flag) {
  std::unordered_map<int32_t, ValueId> joined;
  for (Node& node : step_.nodes) {
    if (!is_optimizer_step(node)) {
      continue;
    }
    auto known = std::find_if(
        node.options.begin(), node.options.end(), [](const Option& option) {
          return option.name == "skip";
        });
    if (known == node.options.end()) {
      node.options.push_back({"skip", {flag}});
      continue;
    }
    const ValueId before = std::get<ValueId>(known->value.data);
    const auto [found, is_new] =
        joined.try_emplace(static_cast<int32_t>(before), before);
    if (is_new) {
      Node either;
      either.op = "aten.maximum";
      either.args = {{before}, {flag}};
      found->second = add(std::move(either), "", "skip", one_number());
    }
    known->value = {found->second};
  }
}

void StepBuilder::finish() {
  const auto place =
      std::find_if(step_.nodes.begin(), step_.nodes.end(), is_optimizer_step);
  step_.nodes.insert(
      place,
      std::make_move_iterator(added_.begin()),
      std::make_move_iterator(added_.end()));
  added_.clear();
  renumber(step_);
}

}  // namespace weft
