// SPDX-License-Identifier: Apache-2.0
#include "search/rank_memory.h"

#include "base/text.h"
#include "program/live_bytes.h"

#include <algorithm>

namespace weft {
namespace {

enum class Part : uint8_t { Resident, Gradient, Kept, Temporary };

// By storage, what it counts as.
std::vector<Part> parts_of(
    const Block& block, const std::vector<ValueId>& storage) {
  const Function& function = block.function;
  std::vector<Part> parts(function.values.size(), Part::Temporary);
  const auto of = [&](ValueId value) -> Part& {
    return parts[index(storage[index(value)])];
  };
  for (const Node& node : function.nodes) {
    if (node.phase == Phase::Forward) {
      for (const ValueId result : node.results) {
        of(result) = Part::Kept;
      }
    }
  }
  // What updates read and what is returned as such, whoever summed it up.
  for (const Node& node : function.nodes) {
    if (node.phase == Phase::Optimizer) {
      for (const ValueId operand : operands(node)) {
        of(operand) = Part::Gradient;
      }
    }
  }
  for (const Output& output : function.outputs) {
    if (output.kind == OutputKind::Gradient) {
      of(output.value) = Part::Gradient;
    }
  }
  for (const Input& input : function.inputs) {
    of(input.value) = is_resident(input) ? Part::Resident : Part::Kept;
  }
  return parts;
}

// Live bytes of the arena by part.
struct Live {
  int64_t gradient_bytes = 0;
  int64_t kept_bytes = 0;
  int64_t temporary_bytes = 0;

  int64_t total() const {
    return gradient_bytes + kept_bytes + temporary_bytes;
  }

  void add(Part part, int64_t bytes) {
    switch (part) {
      case Part::Resident:
        break;
      case Part::Gradient:
        gradient_bytes += bytes;
        break;
      case Part::Kept:
        kept_bytes += bytes;
        break;
      case Part::Temporary:
        temporary_bytes += bytes;
        break;
    }
  }
};

Live most_live(const Block& block) {
  const std::vector<ValueId> storage = storages(block);
  const std::vector<Tier> tier = tiers(block);
  const std::vector<Part> parts = parts_of(block, storage);
  Live now;
  const auto add = [&](ValueId of, int64_t sign) {
    if (tier[index(of)] == Tier::Device) {
      now.add(parts[index(of)], sign * storage_bytes(block, of));
    }
  };
  for (const Input& input : block.function.inputs) {
    add(input.value, 1);
  }
  Live most = now;
  for (const Instruction& instruction : block.instructions) {
    for (const ValueId made : makes(block, instruction)) {
      if (storage[index(made)] == made) {
        add(made, 1);
      }
    }
    if (now.total() > most.total()) {
      most = now;
    }
    if (const auto* free = std::get_if<Free>(&instruction)) {
      for (const ValueId value : free->values) {
        add(storage[index(value)], -1);
      }
    }
  }
  return most;
}

}  // namespace

RankMemory rank_memory(const Block& block) {
  RankMemory out;
  out.first_rank = block.first_rank;
  out.last_rank = block.last_rank;
  out.peak_bytes = peak_bytes(block);
  for (const Input& input : block.function.inputs) {
    if (is_resident(input)) {
      (input.kind == InputKind::State ? out.parts.state_bytes
                                      : out.parts.parameter_bytes) +=
          aligned(storage_bytes(block, input.value));
    }
  }
  const Live live = most_live(block);
  out.parts.gradient_bytes = live.gradient_bytes;
  out.parts.kept_bytes = live.kept_bytes;
  out.parts.temporary_bytes = out.peak_bytes - total(out.parts);
  return out;
}

std::vector<RankMemory> rank_memories(const Program& program) {
  std::vector<RankMemory> out;
  for (const Block& block : program.blocks) {
    out.push_back(rank_memory(block));
  }
  return out;
}

const RankMemory* fullest(const std::vector<RankMemory>& memories) {
  const auto most = std::max_element(
      memories.begin(),
      memories.end(),
      [](const RankMemory& a, const RankMemory& b) {
        return a.peak_bytes < b.peak_bytes;
      });
  return most == memories.end() ? nullptr : &*most;
}

std::string memory_table(
    const std::vector<RankMemory>& memories,
    int64_t budget_bytes,
    const TextStyle& style) {
  TextTable table;
  table.column("ranks", Align::Left)
      .column("peak")
      .column("of the memory")
      .column("parameters")
      .column("gradients")
      .column("states")
      .column("activations")
      .column("temporaries");
  for (const RankMemory& one : memories) {
    table.row(
        {one.first_rank == one.last_rank
             ? cat(one.first_rank)
             : cat(one.first_rank, " to ", one.last_rank),
         bytes_text(one.peak_bytes),
         percent(
             static_cast<double>(one.peak_bytes) /
             static_cast<double>(budget_bytes)),
         bytes_text(one.parts.parameter_bytes),
         bytes_text(one.parts.gradient_bytes),
         bytes_text(one.parts.state_bytes),
         bytes_text(one.parts.kept_bytes),
         bytes_text(one.parts.temporary_bytes)});
  }
  return table.print(style, 2);
}

}  // namespace weft
