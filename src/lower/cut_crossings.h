// SPDX-License-Identifier: Apache-2.0
// What crosses from the ranks of one stage to those of another, which lie on
// another mesh: every rank there gets its piece from those that have parts of
// it. Of ranks that have the same, one sends.
#pragma once

#include "lower/pass.h"
#include "lower/play_stages.h"
#include "program/program.h"

#include <cstdint>
#include <vector>

namespace weft {

// One rank of a position, with the work of all positions on that one's mesh.
struct PositionRank {
  const Lowering* lowering = nullptr;
  // Of all, and of those of its position.
  int64_t rank = 0;
  int64_t number = 0;
  Block block;
  // One an instruction of the block.
  std::vector<Origin> origins;
};

// In every block, puts calls that cut parts in the place of a crossing that
// begins at its position, and calls that join them in the place of one that
// ends there; parts that come are values that nobody makes. Gives their ways:
// players are numbered as `ranks`. Throws UserError where the two ends do not
// have the same part of a step in time.
Routes cut_crossings(std::vector<PositionRank>& ranks);

}  // namespace weft
