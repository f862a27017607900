// SPDX-License-Identifier: Apache-2.0
#include "program/program.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {

std::string_view name(TransferKind kind) {
  switch (kind) {
    case TransferKind::AllReduce:
      return "all_reduce";
    case TransferKind::AllGather:
      return "all_gather";
    case TransferKind::ReduceScatter:
      return "reduce_scatter";
    case TransferKind::AllToAll:
      return "all_to_all";
    case TransferKind::Send:
      return "send";
    case TransferKind::Receive:
      return "receive";
    case TransferKind::Copy:
      return "copy";
  }
  WEFT_CHECK(false, "unknown transfer");
}

bool is_collective(TransferKind kind) {
  switch (kind) {
    case TransferKind::AllReduce:
    case TransferKind::AllGather:
    case TransferKind::ReduceScatter:
    case TransferKind::AllToAll:
      return true;
    case TransferKind::Send:
    case TransferKind::Receive:
    case TransferKind::Copy:
      return false;
  }
  WEFT_CHECK(false, "unknown transfer");
}

bool stays_in_place(TransferKind kind) {
  return kind == TransferKind::AllReduce || kind == TransferKind::Send;
}

std::string_view name(Tier tier) {
  return tier == Tier::Device ? "device" : "host";
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
          rank_count(program),
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

Layout without_partial(Layout layout, const std::vector<std::string>& axes) {
  std::erase_if(layout.partial, [&axes](const std::string& axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  });
  return layout;
}

ValueId add_value(
    Block& block,
    std::string name,
    TensorType type,
    Layout layout,
    int64_t part) {
  block.layouts.push_back(std::move(layout));
  block.parts.push_back(part);
  block.overwrites.push_back(ValueId::None);
  block.offsets.push_back(-1);
  return add_value(block.function, std::move(name), std::move(type));
}

std::vector<ValueId> storages(const Block& block) {
  std::vector<ValueId> storage(block.function.values.size());
  for (size_t i = 0; i < storage.size(); ++i) {
    storage[i] = static_cast<ValueId>(i);
  }
  const auto lies_in = [&storage](ValueId value, ValueId below) {
    storage[index(value)] = storage[index(below)];
  };
  for (const Instruction& instruction : block.instructions) {
    if (const auto* start = std::get_if<Start>(&instruction)) {
      if (stays_in_place(start->kind)) {
        for (size_t i = 0; i < start->results.size(); ++i) {
          lies_in(start->results[i], start->operands[i]);
        }
      }
    } else if (const auto* call = std::get_if<Call>(&instruction)) {
      const Node& node = block.function.nodes[index(call->node)];
      const std::vector<ValueId> read = operands(node);
      for (const ValueId result : node.results) {
        if (is_view(node) && !read.empty()) {
          lies_in(result, read.front());
        } else if (block.overwrites[index(result)] != ValueId::None) {
          lies_in(result, block.overwrites[index(result)]);
        }
      }
    }
  }
  return storage;
}

std::vector<const Start*> transfers(const Block& block) {
  std::vector<const Start*> made_by(block.function.values.size(), nullptr);
  for (const Instruction& instruction : block.instructions) {
    if (const auto* start = std::get_if<Start>(&instruction)) {
      for (const ValueId result : start->results) {
        made_by[index(result)] = start;
      }
    }
  }
  return made_by;
}

std::vector<Tier> tiers(const Block& block) {
  std::vector<Tier> tiers(block.function.values.size(), Tier::Device);
  for (const Instruction& instruction : block.instructions) {
    const auto* start = std::get_if<Start>(&instruction);
    if (start != nullptr && start->kind == TransferKind::Copy) {
      tiers[index(start->results.front())] = start->to;
    }
  }
  return tiers;
}

bool is_resident(const Input& input) { return input.kind != InputKind::Batch; }

int64_t storage_bytes(const Block& block, ValueId storage) {
  return storage_bytes(block.function[storage].type);
}

std::vector<ValueId> reads(const Block& block, const Instruction& instruction) {
  if (const auto* call = std::get_if<Call>(&instruction)) {
    return operands(block.function.nodes[index(call->node)]);
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return start->operands;
  }
  return {};
}

std::vector<ValueId> makes(const Block& block, const Instruction& instruction) {
  if (const auto* call = std::get_if<Call>(&instruction)) {
    return block.function.nodes[index(call->node)].results;
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return start->results;
  }
  return {};
}

namespace {

// Whether values and nodes are in the order in which instructions make and call
// them already, and nothing else is there.
bool is_numbered(const Block& block) {
  const Function& function = block.function;
  size_t values = 0;
  size_t nodes = 0;
  const auto is_next = [&](ValueId value, NodeId node, size_t result) {
    return index(value) == values++ && function[value].node == node &&
           function[value].result == static_cast<int32_t>(result);
  };
  const auto are_next = [&](const std::vector<ValueId>& made, NodeId node) {
    for (size_t i = 0; i < made.size(); ++i) {
      const size_t result = node == NodeId::None ? 0 : i;
      if (!is_next(made[i], node, result)) {
        return false;
      }
    }
    return true;
  };
  for (const Input& input : function.inputs) {
    if (!is_next(input.value, NodeId::None, 0)) {
      return false;
    }
  }
  for (const Instruction& instruction : block.instructions) {
    if (const auto* call = std::get_if<Call>(&instruction)) {
      if (index(call->node) != nodes++ ||
          !are_next(function.nodes[index(call->node)].results, call->node)) {
        return false;
      }
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      if (!are_next(start->results, NodeId::None)) {
        return false;
      }
    }
  }
  return values == function.values.size() && nodes == function.nodes.size() &&
         nodes == block.scratch.size();
}

// Moves what a block holds into a new order of values and nodes.
class Renumbering {
 public:
  explicit Renumbering(Block& block)
      : before_(block), new_ids_(block.function.values.size(), ValueId::None) {
    after_.function.name = std::move(block.function.name);
    after_.first_rank = block.first_rank;
    after_.last_rank = block.last_rank;
    const size_t count = block.function.values.size();
    after_.function.values.reserve(count);
    after_.layouts.reserve(count);
    after_.parts.reserve(count);
    after_.overwrites.reserve(count);
    after_.offsets.reserve(count);
    after_.function.nodes.reserve(block.function.nodes.size());
    after_.scratch.reserve(block.function.nodes.size());
    after_.instructions.reserve(block.instructions.size());
  }

  Block run() {
    after_.function.inputs = std::move(before_.function.inputs);
    for (Input& input : after_.function.inputs) {
      move_value(input.value);
      now(input.value);
    }
    for (Instruction& instruction : before_.instructions) {
      std::visit([this](auto& one) { move(one); }, instruction);
      after_.instructions.push_back(std::move(instruction));
    }
    after_.function.outputs = std::move(before_.function.outputs);
    for (Output& output : after_.function.outputs) {
      now(output.value);
    }
    for (ValueId& value : after_.overwrites) {
      if (value != ValueId::None) {
        now(value);
      }
    }
    return std::move(after_);
  }

 private:
  void move_value(ValueId id) {
    WEFT_CHECK(
        new_ids_[index(id)] == ValueId::None,
        "%",
        after_.function.values[index(new_ids_[index(id)])].name,
        " is made twice");
    Value& value = before_.function[id];
    new_ids_[index(id)] = add_value(
        after_,
        std::move(value.name),
        std::move(value.type),
        std::move(before_.layouts[index(id)]),
        before_.parts[index(id)]);
    after_.overwrites.back() = before_.overwrites[index(id)];
    after_.offsets.back() = before_.offsets[index(id)];
  }

  void now(ValueId& id) const { id = new_ids_[index(id)]; }

  void now(std::vector<ValueId>& ids) const {
    for (ValueId& id : ids) {
      now(id);
    }
  }

  void move(Call& call) {
    Function& function = after_.function;
    Node node = std::move(before_.function.nodes[index(call.node)]);
    WEFT_CHECK(!node.results.empty(), "a node is called twice");
    for (const ValueId made : node.results) {
      move_value(made);
    }
    after_.scratch.push_back(
        before_.scratch.empty() ? Scratch{}
                                : before_.scratch[index(call.node)]);
    replace_operands(node, new_ids_);
    call.node = static_cast<NodeId>(function.nodes.size());
    for (size_t i = 0; i < node.results.size(); ++i) {
      now(node.results[i]);
      function[node.results[i]].node = call.node;
      function[node.results[i]].result = static_cast<int32_t>(i);
    }
    function.nodes.push_back(std::move(node));
  }
  void move(Start& start) {
    for (const ValueId made : start.results) {
      move_value(made);
    }
    now(start.operands);
    now(start.results);
  }
  void move(Wait& wait) const { now(wait.value); }
  void move(Free& free) const { now(free.values); }

  Block& before_;
  Block after_;
  std::vector<ValueId> new_ids_;
};

}  // namespace

void renumber(Block& block) {
  if (!is_numbered(block)) {
    block = Renumbering(block).run();
  }
}

std::string percent_names(
    const Function& function, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId value : values) {
    names.push_back(
        value == ValueId::None ? "-" : cat("%", function[value].name));
  }
  return join(names, ", ");
}

std::string label(const Block& block, const Instruction& instruction) {
  const Function& function = block.function;
  if (const auto* call = std::get_if<Call>(&instruction)) {
    const Node& node = function.nodes[index(call->node)];
    return cat(percent_names(function, node.results), " = ", node.op);
  }
  if (const auto* start = std::get_if<Start>(&instruction)) {
    return cat(
        "start ",
        percent_names(function, start->results),
        " = ",
        name(start->kind));
  }
  if (const auto* wait = std::get_if<Wait>(&instruction)) {
    return cat("wait %", function[wait->value].name);
  }
  return cat(
      "free ", percent_names(function, std::get<Free>(instruction).values));
}

}  // namespace weft
