// SPDX-License-Identifier: Apache-2.0
// Starts early, waits late: each wait moves down to just before the first
// instruction that reads its value, or takes over what it reads, so that calls
// run while data is on its way. Nobody reads what was sent: its wait stays,
// that its storage can be given back, or goes along with the wait that it
// follows.
#include "lower/pass.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace weft {
namespace {

// The values whose storages the instruction takes over or gives back.
std::vector<ValueId> ends(const Block& block, const Instruction& instruction) {
  if (const auto* free = std::get_if<Free>(&instruction)) {
    return free->values;
  }
  const auto* start = std::get_if<Start>(&instruction);
  if (start != nullptr && start->kind == TransferKind::AllReduce) {
    return start->operands;
  }
  std::vector<ValueId> out;
  for (const ValueId made : makes(block, instruction)) {
    if (block.overwrites[index(made)] != ValueId::None) {
      out.push_back(block.overwrites[index(made)]);
    }
  }
  return out;
}

void overlap_block(Block& block) {
  std::vector<Instruction> out;
  const std::vector<ValueId> storage = storages(block);
  const std::vector<const Start*> transfer = transfers(block);
  // Started, and nobody has asked for it yet: by value, the first result of its
  // transfer.
  std::vector<ValueId> pending(block.function.values.size(), ValueId::None);
  // Those of which that is so.
  std::set<size_t> open;
  // By the first result of a transfer: sends that are waited for after it.
  std::map<ValueId, std::vector<ValueId>> followers;
  // The transfer whose wait was put off just before.
  ValueId before = ValueId::None;
  const std::function<void(ValueId)> wait_for = [&](ValueId value) {
    const ValueId first = pending[index(value)];
    if (first == ValueId::None) {
      return;
    }
    out.emplace_back(Wait{first});
    for (const ValueId other : transfer[index(first)]->results) {
      pending[index(other)] = ValueId::None;
      open.erase(index(other));
    }
    for (const ValueId send : std::exchange(followers[first], {})) {
      wait_for(send);
    }
  };
  for (const Instruction& instruction : block.instructions) {
    if (const auto* wait = std::get_if<Wait>(&instruction)) {
      // Nobody reads what was sent: whoever sent it knows when to wait.
      if (transfer[index(wait->value)]->kind != TransferKind::Send) {
        before = pending[index(wait->value)];
      } else if (before != ValueId::None) {
        followers[before].push_back(wait->value);
      } else {
        wait_for(wait->value);
      }
      continue;
    }
    before = ValueId::None;
    for (const ValueId value : reads(block, instruction)) {
      wait_for(value);
    }
    for (const ValueId end : ends(block, instruction)) {
      for (const size_t i : std::vector<size_t>(open.begin(), open.end())) {
        const auto reads_it = [&](ValueId operand) {
          return storage[index(operand)] == storage[index(end)];
        };
        if (pending[i] != ValueId::None && std::any_of(
                                               transfer[i]->operands.begin(),
                                               transfer[i]->operands.end(),
                                               reads_it)) {
          wait_for(static_cast<ValueId>(i));
        }
      }
    }
    out.push_back(instruction);
    if (const auto* start = std::get_if<Start>(&instruction)) {
      for (const ValueId result : start->results) {
        pending[index(result)] = start->results.front();
        open.insert(index(result));
      }
    }
  }
  for (size_t i = 0; i < pending.size(); ++i) {
    wait_for(static_cast<ValueId>(i));
  }
  block.instructions = std::move(out);
}

}  // namespace

void overlap(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    overlap_block(block);
  }
}

}  // namespace weft
