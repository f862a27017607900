// SPDX-License-Identifier: Apache-2.0
#include "program/program.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {

std::string_view name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all_reduce";
  }
  WEFT_CHECK(false, "unknown collective");
}

const Block& block_of(const Program& program, int64_t rank) {
  for (const Block& block : program.blocks) {
    if (block.first_rank <= rank && rank <= block.last_rank) {
      return block;
    }
  }
  throw UserError(
      cat("program @",
          program.name,
          " has ",
          rank_count(program.mesh),
          " rank(s), and no rank ",
          rank));
}

int replacement_of(const Function& function, const Input& input) {
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const Output& output = function.outputs[i];
    // Kinds of inputs and outputs that correspond have the same name.
    if (name(output.kind) == name(input.kind) &&
        output.key == input.keys.front()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<int64_t> group_of(
    const Mesh& mesh, const std::vector<std::string>& axes, int64_t rank) {
  const std::vector<int64_t> own = coordinates(mesh, rank);
  std::vector<int64_t> group;
  for (int64_t other = 0; other < rank_count(mesh); ++other) {
    const std::vector<int64_t> theirs = coordinates(mesh, other);
    bool together = true;
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      const bool may_differ =
          std::find(axes.begin(), axes.end(), mesh.axes[i].name) != axes.end();
      together = together && (may_differ || own[i] == theirs[i]);
    }
    if (together) {
      group.push_back(other);
    }
  }
  return group;
}

Layout without_partial(Layout layout, const std::vector<std::string>& axes) {
  std::erase_if(layout.partial, [&axes](const std::string& axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  });
  return layout;
}

std::vector<ValueId> storages(const Block& block) {
  std::vector<ValueId> storage(block.function.values.size());
  for (size_t i = 0; i < storage.size(); ++i) {
    storage[i] = static_cast<ValueId>(i);
  }
  for (const Instruction& instruction : block.instructions) {
    ValueId below = ValueId::None;
    if (const auto* start = std::get_if<Start>(&instruction)) {
      below = start->operand;
    } else if (const auto* call = std::get_if<Call>(&instruction)) {
      const Node& node = block.function.nodes[index(call->node)];
      const std::vector<ValueId> read = operands(node);
      if (is_view(node) && !read.empty()) {
        below = read.front();
      }
    }
    if (below != ValueId::None) {
      for (const ValueId made : makes(block, instruction)) {
        storage[index(made)] = storage[index(below)];
      }
    }
  }
  return storage;
}

int64_t storage_bytes(const Block& block, ValueId storage) {
  return storage_bytes(block.function[storage].type);
}

std::vector<ValueId> reads(const Block& block, const Instruction& instruction) {
  if (const auto* call = std::get_if<Call>(&instruction)) {
    return operands(block.function.nodes[index(call->node)]);
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return {start->operand};
  }
  return {};
}

std::vector<ValueId> makes(const Block& block, const Instruction& instruction) {
  if (const auto* call = std::get_if<Call>(&instruction)) {
    return block.function.nodes[index(call->node)].results;
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return {start->result};
  }
  return {};
}

void renumber(Block& block) {
  const Function& before = block.function;
  Function after;
  after.name = before.name;
  std::vector<ValueId> new_ids(before.values.size(), ValueId::None);
  std::vector<Layout> layouts;
  const auto move_value = [&](ValueId id) {
    layouts.push_back(block.layouts[index(id)]);
    new_ids[index(id)] = add_value(after, before[id].name, before[id].type);
  };
  for (const Input& input : before.inputs) {
    move_value(input.value);
    after.inputs.push_back(input);
    after.inputs.back().value = new_ids[index(input.value)];
  }
  for (Instruction& instruction : block.instructions) {
    for (const ValueId made : makes(block, instruction)) {
      move_value(made);
    }
    if (auto* call = std::get_if<Call>(&instruction)) {
      Node node = before.nodes[index(call->node)];
      replace_operands(node, new_ids);
      call->node = static_cast<NodeId>(after.nodes.size());
      for (size_t i = 0; i < node.results.size(); ++i) {
        node.results[i] = new_ids[index(node.results[i])];
        after[node.results[i]].node = call->node;
        after[node.results[i]].result = static_cast<int32_t>(i);
      }
      after.nodes.push_back(std::move(node));
    } else if (auto* start = std::get_if<Start>(&instruction)) {
      start->operand = new_ids[index(start->operand)];
      start->result = new_ids[index(start->result)];
    } else if (auto* wait = std::get_if<Wait>(&instruction)) {
      wait->value = new_ids[index(wait->value)];
    } else {
      for (ValueId& value : std::get<Free>(instruction).values) {
        value = new_ids[index(value)];
      }
    }
  }
  for (const Output& output : before.outputs) {
    after.outputs.push_back(output);
    after.outputs.back().value = new_ids[index(output.value)];
  }
  block.function = std::move(after);
  block.layouts = std::move(layouts);
}

namespace {

std::string percent_names(
    const Function& function, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId value : values) {
    names.push_back("%" + function[value].name);
  }
  return join(names, ", ");
}

}  // namespace

std::string label(const Block& block, const Instruction& instruction) {
  const Function& function = block.function;
  if (const auto* call = std::get_if<Call>(&instruction)) {
    const Node& node = function.nodes[index(call->node)];
    return cat(percent_names(function, node.results), " = ", node.op);
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return cat(
        "start %", function[start->result].name, " = ", name(start->kind));
  }
  if (const auto* wait = std::get_if<Wait>(&instruction)) {
    return cat("wait %", function[wait->value].name);
  }
  return cat(
      "free ", percent_names(function, std::get<Free>(instruction).values));
}

}  // namespace weft
