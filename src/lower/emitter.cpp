// SPDX-License-Identifier: Apache-2.0
#include "lower/emitter.h"

#include "base/error.h"
#include "ops/call.h"
#include "ops/kernel.h"

#include <utility>

namespace weft {

std::string Emitter::unique(const std::string& name) {
  std::string out = name;
  for (int64_t i = 1; !names.insert(out).second; ++i) {
    out = cat(name, ".", i);
  }
  return out;
}

ValueId Emitter::call(
    std::string_view op,
    std::vector<Arg> args,
    TensorType type,
    Layout layout,
    const std::string& base) {
  Node node;
  node.op = op;
  node.phase = phase;
  node.args = std::move(args);
  const std::string_view local = op.substr(op.find('.') + 1);
  const ValueId result = add_value(
      block,
      unique(cat(base, ".", local.substr(0, local.find('.')))),
      std::move(type),
      std::move(layout));
  node.results = {result};
  block.instructions.emplace_back(
      Call{static_cast<NodeId>(block.function.nodes.size())});
  block.function.nodes.push_back(std::move(node));
  return result;
}

ValueId Emitter::transfer(
    TransferKind kind,
    ValueId operand,
    const Axes& axes,
    TensorType type,
    Layout layout,
    const std::string& base) {
  Start start;
  start.kind = kind;
  start.axes = axes;
  start.operands = {operand};
  const ValueId result = add_value(
      block,
      unique(cat(base, kind == TransferKind::AllReduce ? ".sum" : ".moved")),
      std::move(type),
      std::move(layout));
  start.results = {result};
  block.instructions.emplace_back(std::move(start));
  block.instructions.emplace_back(Wait{result});
  return result;
}

ValueId Emitter::row_major(ValueId value, const std::string& base) {
  const TensorType type = block.function[value].type;
  if (is_row_major(type)) {
    return value;
  }
  const ValueId copy = call(
      "aten.clone",
      {{value}},
      make_type(type.dtype, type.sizes),
      block.layouts[index(value)],
      base);
  set_option(
      block.function.nodes.back(), "memory_format", {Symbol{"contiguous"}});
  return copy;
}

}  // namespace weft
