// SPDX-License-Identifier: Apache-2.0
// In words, why ranks cannot make one step of the batches that they were given.
#pragma once

#include "graph/tensor_type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// What one rank tells of its batch.
struct ToldBatch {
  struct Entry {
    std::string key;
    TensorType type;
    uint64_t hash = 0;
    // Along the first dim, each part of the batch has rows of its own.
    bool is_split = false;
    // Its other dims may differ.
    bool is_padded = false;
  };

  // "a training step".
  std::string step;
  std::vector<Entry> entries;
};

std::string print_json(const ToldBatch& told);
ToldBatch parse_told_batch(const std::string& json);

struct ToldByRanks {
  // By rank.
  std::vector<ToldBatch> batches;
  // By rank: ranks of one part give the same rows.
  std::vector<int64_t> part_of_rank;
  // How messages call the ranks.
  std::vector<std::string> names;
  // Every rank's batch is its part of the whole one.
  bool is_local = false;
  // Values do not count: it is about shapes alone.
  bool is_example = false;
};

// Which entry differs on which rank, and what to do; empty when nothing does.
std::string batch_difference(const ToldByRanks& told);

}  // namespace weft
