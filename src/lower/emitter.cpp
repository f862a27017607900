// SPDX-License-Identifier: Apache-2.0
#include "lower/emitter.h"

#include "base/error.h"
#include "ops/call.h"
#include "ops/kernel.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

void set_operands(Arg& arg, const std::vector<ValueId>& values, size_t& next) {
  if (auto* id = std::get_if<ValueId>(&arg.data)) {
    *id = values.at(next++);
  } else if (auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (Arg& item : *list) {
      set_operands(item, values, next);
    }
  }
}

}  // namespace

void set_operands(Node& node, const std::vector<ValueId>& values) {
  size_t next = 0;
  for (Arg& arg : node.args) {
    set_operands(arg, values, next);
  }
  for (Option& option : node.options) {
    set_operands(option.value, values, next);
  }
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
      names.unique("", cat(base, ".", local.substr(0, local.find('.')))),
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
      names.unique(
          "", cat(base, kind == TransferKind::AllReduce ? ".sum" : ".moved")),
      std::move(type),
      std::move(layout));
  start.results = {result};
  block.instructions.emplace_back(std::move(start));
  block.instructions.emplace_back(Wait{result});
  return result;
}

ValueId Emitter::start_send(
    ValueId value, int64_t peer, const std::string& base) {
  Start start;
  start.kind = TransferKind::Send;
  start.operands = {value};
  start.peer = peer;
  const ValueId sent = add_value(
      block,
      names.unique("", cat(base, ".sent")),
      TensorType(block.function[value].type),
      Layout(block.layouts[index(value)]),
      block.parts[index(value)]);
  start.results = {sent};
  block.instructions.emplace_back(std::move(start));
  return sent;
}

ValueId Emitter::start_receive(
    TensorType type, Layout layout, int64_t peer, const std::string& name) {
  const ValueId into = add_value(
      block, names.unique("", name), std::move(type), std::move(layout));
  start_receive(into, peer);
  return into;
}

void Emitter::start_receive(ValueId into, int64_t peer) {
  Start start;
  start.kind = TransferKind::Receive;
  start.peer = peer;
  start.results = {into};
  block.instructions.emplace_back(std::move(start));
}

void Emitter::wait(ValueId value) {
  block.instructions.emplace_back(Wait{value});
}

std::vector<ValueId> Emitter::build(
    const std::string& base,
    const std::function<std::vector<ValueId>(NodeBuilder&)>& append) {
  const size_t first_value = block.function.values.size();
  const size_t first_node = block.function.nodes.size();
  NodeBuilder builder(block.function, names);
  builder.begin(base, phase);
  std::vector<ValueId> results = append(builder);
  for (size_t i = first_value; i < block.function.values.size(); ++i) {
    block.layouts.push_back(replicated(
        static_cast<int>(block.function.values[i].type.sizes.size())));
    block.parts.push_back(0);
    block.overwrites.push_back(ValueId::None);
    block.offsets.push_back(-1);
  }
  for (size_t i = first_node; i < block.function.nodes.size(); ++i) {
    block.instructions.emplace_back(Call{static_cast<NodeId>(i)});
  }
  return results;
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

ValueId Emitter::laid_out_as(
    ValueId value, const TensorType& type, const std::string& base) {
  if (block.function[value].type == type) {
    return value;
  }
  if (type.strides.empty()) {
    return row_major(value, base);
  }
  WEFT_CHECK_USER(
      is_dense(type),
      "%",
      block.function[value].name,
      ": is read by its places in memory (as_strided), where it lies with gaps "
      "as ",
      print(type),
      ", and it has to be moved; copy it first (.contiguous()), or split "
      "another dim");
  const Layout layout = block.layouts[index(value)];
  const ValueId empty = call(
      "aten.new_empty_strided",
      {{value}, to_arg(type.sizes), to_arg(strides_of(type))},
      type,
      layout,
      base);
  return call("aten.copy", {{empty}, {value}}, type, layout, base);
}

}  // namespace weft
