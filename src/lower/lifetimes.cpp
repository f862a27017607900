// SPDX-License-Identifier: Apache-2.0
// Frees each storage after the last instruction that touches it, but not what
// the step returns and what is resident. A transfer touches what it reads and
// what it makes until its wait.
#include "lower/pass.h"

#include <utility>

namespace weft {
namespace {

void free_block(Block& block) {
  const Function& function = block.function;
  const std::vector<ValueId> storage = storages(block);
  std::vector<bool> kept(function.values.size(), false);
  for (const Input& input : function.inputs) {
    kept[index(input.value)] = is_resident(input);
  }
  for (const Output& output : function.outputs) {
    kept[index(storage[index(output.value)])] = true;
  }
  // Going backwards, the first touch of a storage is its last use: the value
  // that is touched names it in the free.
  std::vector<Instruction> reversed;
  std::vector<bool> seen = kept;
  const auto last_use = [&](ValueId value, Free& free) {
    const size_t where = index(storage[index(value)]);
    if (!seen[where]) {
      seen[where] = true;
      free.values.push_back(value);
    }
  };
  const std::vector<const Start*> transfer = transfers(block);
  for (auto it = block.instructions.rbegin(); it != block.instructions.rend();
       ++it) {
    Free free;
    for (const ValueId value : makes(block, *it)) {
      last_use(value, free);
    }
    for (const ValueId value : reads(block, *it)) {
      last_use(value, free);
    }
    if (const auto* wait = std::get_if<Wait>(&*it)) {
      // Also results that nobody reads, whose bucket others wanted.
      const Start& start = *transfer[index(wait->value)];
      for (const ValueId value : start.results) {
        last_use(value, free);
      }
      if (!stays_in_place(start.kind)) {
        for (const ValueId value : start.operands) {
          last_use(value, free);
        }
      }
    }
    if (!free.values.empty()) {
      reversed.emplace_back(std::move(free));
    }
    reversed.push_back(*it);
  }
  // Inputs that nothing reads.
  Free unread;
  for (const Input& input : function.inputs) {
    last_use(input.value, unread);
  }
  if (!unread.values.empty()) {
    reversed.emplace_back(std::move(unread));
  }
  block.instructions.assign(reversed.rbegin(), reversed.rend());
}

}  // namespace

void lifetimes(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    free_block(block);
  }
}

}  // namespace weft
