// SPDX-License-Identifier: Apache-2.0
#include "execute/replay.h"

#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/allocation_watch.h"
#include "execute/evaluate.h"
#include "execute/guard.h"
#include "execute/trunc_normal.h"
#include "ops/call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <unordered_map>

namespace weft {
namespace {

double number_of(const Arg& arg) {
  if (const auto* integer = std::get_if<int64_t>(&arg.data)) {
    return static_cast<double>(*integer);
  }
  if (const auto* truth = std::get_if<bool>(&arg.data)) {
    return *truth ? 1 : 0;
  }
  return std::get<double>(arg.data);
}

// Before a random node: the generator's state for its number.
class RandomStates {
 public:
  // Gives the state to go back to afterwards, when the node repeats a number.
  at::Tensor enter(int64_t number) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const auto [found, is_new] = states_.try_emplace(number);
    if (is_new) {
      found->second = generator.get_state();
      return {};
    }
    at::Tensor now = generator.get_state();
    generator.set_state(found->second);
    return now;
  }

  static void leave(const at::Tensor& before) {
    if (before.defined()) {
      at::Generator generator = at::detail::getDefaultCPUGenerator();
      generator.set_state(before);
    }
  }

 private:
  std::unordered_map<int64_t, at::Tensor> states_;
};

// The in-place form of a random node that filled a tensor in the recorded run,
// or nothing. PyTorch draws numbers in the order of memory, and the functional
// form does not keep the strides of its operand.
std::optional<Node> filling_form(const Node& node) {
  if (node.overwrites == ValueId::None) {
    return std::nullopt;
  }
  Node form = node;
  std::vector<std::string> parts = split(node.op, '.');
  WEFT_CHECK(parts.size() >= 2, node.op);
  const std::string suffix = "_functional";
  if (parts[1].ends_with(suffix)) {
    parts[1].resize(parts[1].size() - suffix.size());
  }
  parts[1] += "_";
  if (parts.size() == 3 && parts[2] == "p") {
    parts[2] = "float";
  }
  form.op = join(parts, ".");
  return form;
}

std::vector<TensorType> types_of_results(
    const Function& function, const Node& node) {
  std::vector<TensorType> types;
  for (const ValueId id : node.results) {
    types.push_back(function[id].type);
  }
  return types;
}

std::vector<int32_t> last_uses(const Function& function) {
  std::vector<int32_t> last(function.values.size(), -1);
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    for_each_operand(function.nodes[i], [&](ValueId id) {
      last[index(id)] = static_cast<int32_t>(i);
    });
  }
  for (const Output& output : function.outputs) {
    last[index(output.value)] = static_cast<int32_t>(function.nodes.size());
  }
  return last;
}

}  // namespace

at::Tensor constant_tensor(const Graph& graph, const std::string& name) {
  for (const Constant& constant : graph.constants) {
    if (constant.name == name) {
      at::Tensor tensor = at::empty(
          constant.type.sizes,
          at::TensorOptions().dtype(scalar_type_of(constant.type.dtype)));
      std::memcpy(
          tensor.mutable_data_ptr(),
          constant.bytes.data(),
          constant.bytes.size());
      return tensor;
    }
  }
  throw UserError(cat("the graph has no constant called ", name));
}

namespace {

// Calls `around(node, run)` for every node that runs; `run` runs it.
std::vector<at::Tensor> replay_around(
    const Function& function,
    const std::vector<at::Tensor>& inputs,
    const std::function<void(NodeId, const std::function<void()>&)>& around) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  WEFT_CHECK(inputs.size() == function.inputs.size());
  std::vector<at::Tensor> values(function.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[index(function.inputs[i].value)] = inputs[i];
  }
  const std::vector<int32_t> last = last_uses(function);
  RandomStates random;
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& node = function.nodes[i];
    if (node.phase == Phase::Optimizer) {
      continue;
    }
    std::vector<at::Tensor> arguments;
    for_each_operand(
        node, [&](ValueId id) { arguments.push_back(values[index(id)]); });
    if (is_guard(node)) {
      check_guard(function[node.results.front()].name, node, arguments.front());
      values[index(node.results.front())] = arguments.front();
      continue;
    }
    const Arg* number = find_option(node, kRngOption);
    const at::Tensor before =
        number ? random.enter(std::get<int64_t>(number->data)) : at::Tensor();
    if (node.op == "weft.trunc_normal") {
      values[index(node.results.front())] = trunc_normal(
          arguments.front(),
          number_of(node.args.at(1)),
          number_of(node.args.at(2)),
          number_of(node.args.at(3)),
          number_of(node.args.at(4)));
      RandomStates::leave(before);
      continue;
    }
    const auto filling = number ? filling_form(node) : std::nullopt;
    if (filling) {
      arguments.front() = arguments.front().clone();
    }
    place_operands(function, node, arguments);
    const AtenCall call(filling ? *filling : node);
    std::vector<at::Tensor> results;
    around(static_cast<NodeId>(i), [&] { results = call(arguments); });
    RandomStates::leave(before);
    WEFT_CHECK(results.size() == node.results.size(), node.op);
    place_results(node, types_of_results(function, node), results);
    for (size_t r = 0; r < results.size(); ++r) {
      values[index(node.results[r])] = std::move(results[r]);
    }
    arguments.clear();
    for_each_operand(node, [&](ValueId id) {
      if (last[index(id)] == static_cast<int32_t>(i)) {
        values[index(id)].reset();
      }
    });
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(function.outputs.size());
  for (const Output& output : function.outputs) {
    outputs.push_back(values[index(output.value)]);
  }
  return outputs;
}

}  // namespace

std::vector<at::Tensor> replay(
    const Function& function, const std::vector<at::Tensor>& inputs) {
  return replay_around(
      function, inputs, [](NodeId, const std::function<void()>& run) {
        run();
      });
}

std::vector<int64_t> measure_scratch(
    const Function& function, const std::vector<at::Tensor>& inputs) {
  std::vector<int64_t> scratch(function.nodes.size(), 0);
  AllocationWatch watch;
  replay_around(
      function, inputs, [&](NodeId id, const std::function<void()>& run) {
        watch.reset_peak();
        run();
        scratch[index(id)] = watch.peak_bytes() - watch.live_bytes();
      });
  return scratch;
}

}  // namespace weft
