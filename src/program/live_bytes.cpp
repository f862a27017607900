// SPDX-License-Identifier: Apache-2.0
#include "program/live_bytes.h"

namespace weft {

std::vector<int64_t> live_bytes(const Block& block) {
  const std::vector<ValueId> storage = storages(block);
  int64_t live = 0;
  for (const Input& input : block.function.inputs) {
    live += storage_bytes(block, input.value);
  }
  std::vector<int64_t> after;
  after.reserve(block.instructions.size());
  for (const Instruction& instruction : block.instructions) {
    for (const ValueId made : makes(block, instruction)) {
      if (storage[index(made)] == made) {
        live += storage_bytes(block, made);
      }
    }
    if (const auto* free = std::get_if<Free>(&instruction)) {
      for (const ValueId value : free->values) {
        live -= storage_bytes(block, storage[index(value)]);
      }
    }
    after.push_back(live);
  }
  return after;
}

}  // namespace weft
