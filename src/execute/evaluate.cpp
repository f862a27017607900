// SPDX-License-Identifier: Apache-2.0
#include "execute/evaluate.h"

#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "execute/guard.h"
#include "ops/call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

#include <cmath>
#include <utility>

namespace weft {
namespace {

at::Tensor place_for(const TensorType& type) {
  return at::empty_strided(
      type.sizes, strides_of(type), scalar_type_of(type.dtype));
}

// Operators that speak of places in the memory of operand 0.
bool reads_places(const Node& node) {
  return node.op == "aten.as_strided" || node.op == "aten.as_strided_scatter";
}

std::vector<at::Tensor> run_node(
    const Function& function,
    const Node& node,
    const std::vector<at::Tensor>& operands,
    const StepContext& context) {
  std::vector<TensorType> types;
  for (const ValueId id : node.results) {
    types.push_back(function[id].type);
  }
  const std::vector<Piece> piece = whole_pieces(types.front().sizes);
  return evaluate_node(function, node, operands, types, piece, context);
}

std::vector<size_t> last_readers(const Function& function) {
  std::vector<size_t> last(function.values.size(), 0);
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    for (const ValueId id : function.nodes[i].results) {
      last[index(id)] = i;
    }
    for_each_operand(
        function.nodes[i], [&](ValueId id) { last[index(id)] = i; });
  }
  for (const Output& output : function.outputs) {
    last[index(output.value)] = function.nodes.size();
  }
  return last;
}

}  // namespace

void place_operands(
    const Function& function,
    const Node& node,
    std::vector<at::Tensor>& operands) {
  if (!reads_places(node)) {
    return;
  }
  const TensorType& type = function[weft::operands(node).front()].type;
  at::Tensor& first = operands.front();
  if (first.storage_offset() != 0 || type_of(first) != type) {
    const at::Tensor placed = place_for(type);
    placed.copy_(first);
    first = placed;
  }
}

void place_results(
    const Node& node,
    const std::vector<TensorType>& types,
    std::vector<at::Tensor>& results) {
  if (node.overwrites == ValueId::None || is_view(node)) {
    return;
  }
  for (size_t i = 0; i < results.size() && i < types.size(); ++i) {
    if (results[i].defined() && type_of(results[i]) != types[i] &&
        results[i].sizes() == c10::IntArrayRef(types[i].sizes)) {
      const at::Tensor place = place_for(types[i]);
      place.copy_(results[i]);
      results[i] = place;
    }
  }
}

std::vector<at::Tensor> evaluate_node(
    const Function& function,
    const Node& node,
    const std::vector<at::Tensor>& operands,
    const std::vector<TensorType>& types,
    const std::vector<Piece>& piece,
    const StepContext& context) {
  if (is_guard(node)) {
    check_guard(function[node.results.front()].name, node, operands.front());
    return {operands.front()};
  }
  if (node.op.starts_with("weft.") || is_random(node)) {
    std::vector<at::Tensor> results;
    for (const TensorType& type : types) {
      results.push_back(place_for(type));
    }
    const Kernel kernel = bind_kernel(
        {.function = function,
         .node = node,
         .operands = operands,
         .results = results,
         .piece = piece});
    if (kernel) {
      kernel(context);
      return results;
    }
  }
  std::vector<at::Tensor> placed = operands;
  place_operands(function, node, placed);
  std::vector<at::Tensor> results = AtenCall(node)(placed);
  place_results(node, types, results);
  return results;
}

std::vector<at::Tensor> evaluate(
    const Function& function,
    const std::vector<at::Tensor>& inputs,
    const StepContext& context) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  WEFT_CHECK(inputs.size() == function.inputs.size());
  std::vector<at::Tensor> values(function.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[index(function.inputs[i].value)] = inputs[i];
  }
  const std::vector<size_t> last = last_readers(function);
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& node = function.nodes[i];
    std::vector<at::Tensor> operands;
    for_each_operand(
        node, [&](ValueId id) { operands.push_back(values[index(id)]); });
    std::vector<at::Tensor> results =
        run_node(function, node, operands, context);
    WEFT_CHECK(results.size() == node.results.size(), node.op);
    for (size_t r = 0; r < results.size(); ++r) {
      values[index(node.results[r])] = std::move(results[r]);
    }
    const auto drop = [&](ValueId id) {
      if (last[index(id)] == i) {
        values[index(id)].reset();
      }
    };
    for_each_operand(node, drop);
    for (const ValueId id : node.results) {
      drop(id);
    }
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(function.outputs.size());
  for (const Output& output : function.outputs) {
    outputs.push_back(values[index(output.value)]);
  }
  return outputs;
}

}  // namespace weft
