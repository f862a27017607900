// SPDX-License-Identifier: Apache-2.0
// What the memory of ranks is made of, when a program has been lowered.
#pragma once

#include "profile/text_table.h"
#include "program/program.h"
#include "search/candidate.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Ranks that run the same block.
struct RankMemory {
  int64_t first_rank = 0;
  int64_t last_rank = 0;
  // As of live_bytes.h; the parts add up to it.
  int64_t peak_bytes = 0;
  // When most of it is live: `kept` is what forward has made and the batch;
  // `temporary` is all else, with what calls need inside and gaps between
  // storages.
  MemoryParts parts;
};

RankMemory rank_memory(const Block& block);
// Of every block.
std::vector<RankMemory> rank_memories(const Program& program);

// The one with the highest peak, the first of several; nullptr of none.
const RankMemory* fullest(const std::vector<RankMemory>& memories);

// One line each, beside what a rank may use.
std::string memory_table(
    const std::vector<RankMemory>& memories,
    int64_t budget_bytes,
    const TextStyle& style);

}  // namespace weft
