// SPDX-License-Identifier: Apache-2.0
// Which units of a chain are made again in backward, by a dynamic programme.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

struct ChainUnit {
  double forward_seconds = 0;
  // All that backward reads of it, what it gives to the next included.
  int64_t kept_bytes = 0;
  // What it gives to the next.
  int64_t output_bytes = 0;
};

struct ChainChoice {
  // By unit: forward is run again for its backward, and only what it took in is
  // kept.
  std::vector<bool> is_again;
  // By unit: what it gives to the next is kept, too; else it is made again
  // together with the next, from further back.
  std::vector<bool> keeps_output;
  double extra_seconds = 0;
  // Of what is kept, and of the longest run that is made again at once.
  int64_t peak_bytes = 0;
};

// The choice with the least extra time whose peak is at most `budget_bytes`, as
// rotor finds it where every value is made again once at the most: neighbouring
// units without a kept value between them are made again together, just before
// the backward of the last of them. Bytes are counted in `slots` parts of the
// budget, rounded up, so that what is found fits. Nullopt where nothing does.
std::optional<ChainChoice> rotor(
    const std::vector<ChainUnit>& chain,
    int64_t budget_bytes,
    int64_t slots = 500);

}  // namespace weft
