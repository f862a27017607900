// SPDX-License-Identifier: Apache-2.0
// Starts early, waits late: each wait moves down to just before the first
// instruction that reads its value, so that calls run while data is on its way.
#include "lower/pass.h"

#include <utility>

namespace weft {
namespace {

void overlap_block(Block& block) {
  std::vector<Instruction> out;
  // Started, and nobody has asked for it yet: by value, the first result of its
  // transfer.
  std::vector<ValueId> pending(block.function.values.size(), ValueId::None);
  const auto wait_for = [&](ValueId value) {
    const ValueId first = pending[index(value)];
    if (first == ValueId::None) {
      return;
    }
    out.emplace_back(Wait{first});
    for (ValueId& other : pending) {
      other = other == first ? ValueId::None : other;
    }
  };
  for (const Instruction& instruction : block.instructions) {
    if (std::holds_alternative<Wait>(instruction)) {
      continue;
    }
    for (const ValueId value : reads(block, instruction)) {
      wait_for(value);
    }
    out.push_back(instruction);
    if (const auto* start = std::get_if<Start>(&instruction)) {
      for (const ValueId result : start->results) {
        pending[index(result)] = start->results.front();
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
