// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// A stretch [begin, end) of a sequence that repeats itself: every element
// equals the one `period` before it, the stretch holds the period at least
// twice, it cannot be made longer on either side, and no smaller period fits.
struct Repetition {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t period = 0;

  bool operator==(const Repetition&) const = default;
};

// All of them, sorted by begin, then end: at most as many as the sequence has
// elements, nested ones and overlapping ones included. Time O(n log n).
std::vector<Repetition> find_repetitions(const std::vector<int32_t>& sequence);

}  // namespace weft
