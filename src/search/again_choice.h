// SPDX-License-Identifier: Apache-2.0
// Which values of a step backward makes again, by an integer programme (as
// Checkmate does): exact for any graph, while it is small.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// A step as that choice sees it: calls of forward, what they make, and moments
// after forward at which that is read.
struct AgainStep {
  struct Call {
    double seconds = 0;
    // Storages, all of earlier calls.
    std::vector<int32_t> reads = {};
  };
  struct Storage {
    int64_t bytes = 0;
    int32_t call = 0;
    // The first and the last moment that reads it; none for -1. Such a storage
    // is not kept, but made again for what is made from it.
    int32_t first_read = -1;
    int32_t last_read = -1;
    // Is never made again, but kept for as long as it is needed.
    bool is_once = false;
  };
  struct Moment {
    // What else lives just before and at it. May be negative, where storages
    // share memory.
    int64_t before_bytes = 0;
    int64_t bytes = 0;
  };
  std::vector<Call> calls;
  std::vector<Storage> storages;
  std::vector<Moment> moments;
  // What else lives at every call of forward.
  std::vector<int64_t> call_bytes;

  // By storage: some moment reads it, and it may be kept or made again.
  std::vector<bool> choices() const;
};

struct AgainChoice {
  // By storage: it is made again.
  std::vector<bool> is_again;
  // By call, as lowering has it (lower/recompute.cpp): the moment at which a
  // storage of it that is not kept is first needed, by what reads it or by a
  // call that is run again; -1: it runs once. At one moment calls run again in
  // their order.
  std::vector<int32_t> again_at;
  double extra_seconds = 0;
  // Of choose_again: time ran out before it was shown that none takes less.
  bool is_in_doubt = false;
  // Of all storages and of what else lives.
  int64_t peak_bytes = 0;
};

// What comes of it when some storages are kept, of those that choices() has.
AgainChoice play_again(const AgainStep& step, const std::vector<bool>& keeps);

// The choice with the least extra time whose peak is at most `budget_bytes`.
// Nullopt where there is none, or none was found in that time.
std::optional<AgainChoice> choose_again(
    const AgainStep& step,
    int64_t budget_bytes,
    double time_limit_seconds = 60);

}  // namespace weft
