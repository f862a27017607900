// SPDX-License-Identifier: Apache-2.0
#include "program/live_bytes.h"

#include "base/error.h"

#include <algorithm>

namespace weft {

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

std::vector<int64_t> live_bytes(const Block& block) {
  const std::vector<ValueId> storage = storages(block);
  const std::vector<Tier> tier = tiers(block);
  int64_t live = 0;
  for (const Input& input : block.function.inputs) {
    live += storage_bytes(block, input.value);
  }
  std::vector<int64_t> after;
  after.reserve(block.instructions.size());
  for (const Instruction& instruction : block.instructions) {
    for (const ValueId made : makes(block, instruction)) {
      if (storage[index(made)] == made && tier[index(made)] == Tier::Device) {
        live += storage_bytes(block, made);
      }
    }
    if (const auto* free = std::get_if<Free>(&instruction)) {
      for (const ValueId value : free->values) {
        const ValueId freed = storage[index(value)];
        if (tier[index(freed)] == Tier::Device) {
          live -= storage_bytes(block, freed);
        }
      }
    }
    after.push_back(live);
  }
  return after;
}

int64_t arena_bytes(const Block& block) {
  int64_t end = 0;
  for (size_t i = 0; i < block.offsets.size(); ++i) {
    if (block.offsets[i] >= 0) {
      end = std::max(
          end,
          block.offsets[i] + storage_bytes(block, static_cast<ValueId>(i)));
    }
  }
  for (const Scratch& scratch : block.scratch) {
    end = std::max(end, scratch.offset + scratch.bytes);
  }
  return end;
}

int64_t resident_bytes(const Block& block) {
  int64_t bytes = 0;
  for (const Input& input : block.function.inputs) {
    if (is_resident(input)) {
      bytes += aligned(storage_bytes(block, input.value));
    }
  }
  return bytes;
}

int64_t peak_bytes(const Block& block) {
  return resident_bytes(block) + arena_bytes(block);
}

int64_t peak_bytes(const Program& program) {
  int64_t most = 0;
  for (const Block& block : program.blocks) {
    most = std::max(most, peak_bytes(block));
  }
  return most;
}

void verify_memory(
    const Program& program, const std::string& where, int64_t budget_bytes) {
  for (const Block& block : program.blocks) {
    const int64_t kept_bytes = resident_bytes(block);
    WEFT_CHECK_USER(
        peak_bytes(block) <= budget_bytes,
        where,
        ": a rank needs ",
        peak_bytes(block),
        " bytes (",
        kept_bytes,
        " of parameters, buffers and states, ",
        arena_bytes(block),
        " of the step), and its budget is ",
        budget_bytes,
        kept_bytes >= budget_bytes
            ? "; keep pieces of parameters and states (zero=3, tensor=N), or "
              "give a larger budget"
            : "; take a smaller batch, more ranks or a larger budget");
  }
}

int64_t transfer_bytes(const Block& block, const Start& start) {
  int64_t bytes = 0;
  for (const ValueId result : start.results) {
    const TensorType& type = block.function[result].type;
    bytes += element_count(type) * element_bytes(type.dtype);
  }
  return bytes;
}

}  // namespace weft
