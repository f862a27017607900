// SPDX-License-Identifier: Apache-2.0
// Lets results take over the storage of an operand that nobody reads any more.
#include "lower/in_place.h"

#include "lower/pass.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {

int64_t call_scratch_bytes(const Function& function, const Node& node) {
  return node.op.starts_with("weft.") ? work_bytes_of(function, node)
                                      : scratch_bytes_of(function, node);
}

Reuse::Reuse(Block& block)
    : block_(block),
      parent_(storages(block)),
      last_touch_(parent_.size(), -1),
      made_at_(parent_.size(), -1),
      in_bucket_(parent_.size(), false) {
  const auto touch = [this](ValueId value, int64_t at) {
    int64_t& last = last_touch_[index(storage(value))];
    last = std::max(last, at);
  };
  const std::vector<const Start*> transfer = transfers(block);
  const auto end = static_cast<int64_t>(block.instructions.size());
  for (int64_t at = 0; at < end; ++at) {
    const Instruction& instruction =
        block.instructions[static_cast<size_t>(at)];
    for (const ValueId made : makes(block, instruction)) {
      made_at_[index(made)] = at;
      touch(made, at);
    }
    for (const ValueId read : reads(block, instruction)) {
      touch(read, at);
    }
    if (const auto* wait = std::get_if<Wait>(&instruction)) {
      touch(wait->value, at);
      for (const ValueId operand : transfer[index(wait->value)]->operands) {
        touch(operand, at);
      }
    }
    const auto* start = std::get_if<Start>(&instruction);
    if (start != nullptr && start->kind == TransferKind::AllReduce) {
      for (const ValueId operand : start->operands) {
        in_bucket_[index(storage(operand))] = start->operands.size() > 1;
      }
    }
  }
  for (const Output& output : block.function.outputs) {
    touch(output.value, end);
  }
}

ValueId Reuse::storage(ValueId value) const {
  while (parent_[index(value)] != value) {
    value = parent_[index(value)];
  }
  return value;
}

bool Reuse::overwrite(ValueId result, ValueId operand) {
  const Function& function = block_.function;
  const NodeId made_by = function[result].node;
  if (made_by == NodeId::None || storage(result) != result ||
      in_bucket_[index(result)]) {
    return false;
  }
  const Node& node = function.nodes[index(made_by)];
  const OpDef* def = find_op(node.op);
  // One of PyTorch's that allocates more than its results may be another kernel
  // than the one that was proved to work in place.
  if (def == nullptr || !def->in_place ||
      call_scratch_bytes(function, node) > work_bytes_of(function, node)) {
    return false;
  }
  const std::vector<ValueId> read_by_it = operands(node);
  if (def->overwritten_operand >= 0 &&
      read_by_it[static_cast<size_t>(def->overwritten_operand)] != operand) {
    return false;
  }
  const ValueId below = storage(operand);
  const TensorType& type = function[result].type;
  bool reads_it = false;
  for (size_t i = 0; i < read_by_it.size(); ++i) {
    if (storage(read_by_it[i]) == below) {
      // Another view of the same memory would be read after it was written, and
      // so would an operand that must not be written over, were it the same.
      if (function[read_by_it[i]].type != type ||
          (def->overwritten_operand >= 0 &&
           i != static_cast<size_t>(def->overwritten_operand))) {
        return false;
      }
      reads_it = true;
    }
  }
  if (!reads_it || in_bucket_[index(below)] ||
      dense_bytes(type) != storage_bytes(block_, below) ||
      storage_bytes(type) != storage_bytes(block_, below) ||
      last_touch_[index(below)] > made_at_[index(result)]) {
    return false;
  }
  block_.overwrites[index(result)] = operand;
  parent_[index(result)] = below;
  last_touch_[index(below)] = last_touch_[index(result)];
  return true;
}

namespace {

void reuse_block(Block& block) {
  Reuse reuse(block);
  std::vector<bool> stays(block.function.values.size(), false);
  for (const Input& input : block.function.inputs) {
    stays[index(input.value)] = is_resident(input);
  }
  for (const Node& node : block.function.nodes) {
    for (const ValueId result : node.results) {
      for (const ValueId operand : operands(node)) {
        if (!stays[index(reuse.storage(operand))] &&
            reuse.overwrite(result, operand)) {
          break;
        }
      }
    }
  }
}

}  // namespace

void in_place(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    reuse_block(block);
  }
}

}  // namespace weft
