// SPDX-License-Identifier: Apache-2.0
// Starts early, waits late: each wait moves down to just before the first
// instruction that reads its value, so that calls run while data is on its way.
#include "lower/pass.h"

#include <utility>

namespace weft {
namespace {

void overlap_block(Block& block) {
  std::vector<Instruction> out;
  // Started, and nobody has asked for it yet.
  std::vector<bool> pending(block.function.values.size(), false);
  std::vector<ValueId> in_order;
  for (const Instruction& instruction : block.instructions) {
    if (const auto* wait = std::get_if<Wait>(&instruction)) {
      pending[index(wait->value)] = true;
      in_order.push_back(wait->value);
      continue;
    }
    for (const ValueId value : reads(block, instruction)) {
      if (pending[index(value)]) {
        pending[index(value)] = false;
        out.emplace_back(Wait{value});
      }
    }
    out.push_back(instruction);
  }
  for (const ValueId value : in_order) {
    if (pending[index(value)]) {
      out.emplace_back(Wait{value});
    }
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
