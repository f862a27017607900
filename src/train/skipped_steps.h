// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace weft {

// Steps in a row that changed no parameter. Once there are so many, another
// batch will not help: a loss scale of 65536 has come down to 1 after 16 of
// them, and the same parameters have met fifty batches.
inline constexpr int64_t kMostSkippedSteps = 50;

class SkippedSteps {
 public:
  // After every step. True when it is the last that may be skipped: the run
  // should end.
  bool note(bool is_skipped) {
    in_a_row_ = is_skipped ? in_a_row_ + 1 : 0;
    return in_a_row_ >= kMostSkippedSteps;
  }

 private:
  int64_t in_a_row_ = 0;
};

}  // namespace weft
