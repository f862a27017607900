// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "rewrite/step_builder.h"
#include "rewrite/training.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft {
namespace {

std::string gradient_key(const std::string& parameter) {
  return parameter + ".gradient";
}

struct Gradient {
  std::string key;
  ValueId value;
};

// What backward made for the parameters of the optimizer.
std::vector<Gradient> gradients_of(const Function& step) {
  std::vector<Gradient> gradients;
  for (const Output& output : step.outputs) {
    if (output.kind == OutputKind::Gradient) {
      gradients.push_back({output.key, output.value});
    }
  }
  WEFT_CHECK_USER(
      !gradients.empty(),
      "the graph returns no gradients: accumulate them before their outputs "
      "are dropped");
  return gradients;
}

// Inputs that nothing reads go.
void drop_unread_inputs(Function& step) {
  std::vector<bool> is_read(step.values.size(), false);
  for (const Node& node : step.nodes) {
    for_each_operand(node, [&](ValueId id) { is_read[index(id)] = true; });
  }
  for (const Output& output : step.outputs) {
    is_read[index(output.value)] = true;
  }
  std::erase_if(step.inputs, [&](const Input& input) {
    return !is_read[index(input.value)];
  });
}

// (loss / count).backward() starts with 1 / count for the loss.
void divide_start(Function& step, int64_t count) {
  NameTable names(step);
  // After scale_loss it starts from the scale instead.
  ValueId start = ValueId::None;
  size_t place = 0;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Scalar && input.keys[0] == "loss_scale") {
      start = input.value;
      place = static_cast<size_t>(
          std::find_if(
              step.nodes.begin(),
              step.nodes.end(),
              [](const Node& node) { return node.phase == Phase::Backward; }) -
          step.nodes.begin());
    }
  }
  if (start == ValueId::None) {
    place = index(backward_start(step)) + 1;
    start = step.nodes[place - 1].results.front();
  } else if (const Node& first = step.nodes.at(place);
             operands(first)[0] == start && operands(first).size() == 1) {
    // The scale in the loss's own type.
    start = first.results.front();
    ++place;
  }
  Node node;
  node.op = "aten.div.Tensor";
  node.args = {{start}, {count}};
  node.phase = Phase::Backward;
  add_node(
      step,
      std::move(node),
      {names.unique("", "divided_start")},
      {step[start].type});
  Node divided = std::move(step.nodes.back());
  step.nodes.pop_back();
  std::vector<ValueId> stand_in(step.values.size());
  for (size_t i = 0; i < stand_in.size(); ++i) {
    stand_in[i] = static_cast<ValueId>(i);
  }
  stand_in[index(start)] = divided.results.front();
  for (size_t i = place; i < step.nodes.size(); ++i) {
    replace_operands(step.nodes[i], stand_in);
  }
  step.nodes.insert(
      step.nodes.begin() + static_cast<int64_t>(place), std::move(divided));
}

Function accumulate_step(Function step, int64_t count) {
  const std::vector<Gradient> gradients = gradients_of(step);
  std::erase_if(step.nodes, [](const Node& node) {
    return node.phase == Phase::Optimizer;
  });
  std::vector<bool> is_made(step.values.size(), false);
  for (const Input& input : step.inputs) {
    is_made[index(input.value)] = true;
  }
  for (const Node& node : step.nodes) {
    for (const ValueId id : node.results) {
      is_made[index(id)] = true;
    }
  }
  std::erase_if(step.outputs, [&](const Output& output) {
    return output.kind == OutputKind::Gradient || !is_made[index(output.value)];
  });
  divide_start(step, count);
  NameTable names(step);
  for (const Gradient& gradient : gradients) {
    const std::string key = gradient_key(gradient.key);
    const TensorType type = step[gradient.value].type;
    const ValueId before = add_value(step, names.unique("", key), type);
    step.inputs.push_back({before, InputKind::State, {key}, false});
    Node sum;
    sum.op = "aten.add.Tensor";
    sum.args = {{before}, {gradient.value}};
    sum.overwrites = before;
    sum.phase = Phase::Backward;
    const NodeId id = add_node(
        step, std::move(sum), {names.unique("", key + ".sum")}, {type});
    step.outputs.push_back(
        {OutputKind::State, key, step.nodes[index(id)].results.front()});
  }
  drop_unread_inputs(step);
  renumber(step);
  return step;
}

Function update_step(Function step) {
  const std::vector<Gradient> gradients = gradients_of(step);
  std::erase_if(step.nodes, [](const Node& node) {
    return node.phase != Phase::Optimizer;
  });
  std::erase_if(step.outputs, [](const Output& output) {
    return output.kind == OutputKind::Loss ||
           output.kind == OutputKind::Gradient ||
           output.kind == OutputKind::Buffer;
  });
  NameTable names(step);
  const size_t value_count = step.values.size();
  std::vector<ValueId> stand_in(value_count);
  for (size_t i = 0; i < value_count; ++i) {
    stand_in[i] = static_cast<ValueId>(i);
  }
  std::vector<Node> zeros;
  for (const Gradient& gradient : gradients) {
    const std::string key = gradient_key(gradient.key);
    const TensorType type = step[gradient.value].type;
    const ValueId sum = add_value(step, names.unique("", key), type);
    step.inputs.push_back({sum, InputKind::State, {key}, false});
    stand_in[index(gradient.value)] = sum;
    Node zero;
    zero.op = "aten.zeros_like";
    zero.args = {{sum}};
    zero.overwrites = sum;
    zero.phase = Phase::Optimizer;
    add_node(step, std::move(zero), {names.unique("", key + ".zeros")}, {type});
    zeros.push_back(std::move(step.nodes.back()));
    step.nodes.pop_back();
    step.outputs.push_back(
        {OutputKind::State, key, zeros.back().results.front()});
  }
  std::vector<bool> is_made(step.values.size(), false);
  for (const Input& input : step.inputs) {
    is_made[index(input.value)] = true;
  }
  for (Node& node : step.nodes) {
    node.releases.clear();
    replace_operands(node, stand_in);
    for (const ValueId id : node.results) {
      is_made[index(id)] = true;
    }
    for_each_operand(node, [&](ValueId id) {
      WEFT_CHECK_USER(
          is_made[index(id)],
          "%",
          step[node.results.front()].name,
          ": the optimizer reads %",
          step[id].name,
          " of forward or backward, which is not there after several batches "
          "(skip_bad_loss cannot be combined with accumulation)");
    });
  }
  std::erase_if(step.outputs, [&](const Output& output) {
    return index(output.value) < value_count && !is_made[index(output.value)];
  });
  step.nodes.insert(
      step.nodes.end(),
      std::make_move_iterator(zeros.begin()),
      std::make_move_iterator(zeros.end()));
  drop_unread_inputs(step);
  renumber(step);
  return step;
}

}  // namespace

AccumulationGraphs accumulate_gradients(const Graph& graph, int64_t count) {
  WEFT_CHECK_USER(
      count > 0,
      "gradients are accumulated over at least 1 batch, not ",
      count);
  AccumulationGraphs graphs{graph, graph};
  Function& whole = step_with_optimizer(graphs.accumulate, "accumulation");
  Function* update = find_function(graphs.update, "step");
  *update = update_step(*update);
  whole = accumulate_step(std::move(whole), count);
  std::erase_if(graphs.update.functions, [](const Function& function) {
    return function.name != "step";
  });
  return graphs;
}

}  // namespace weft
