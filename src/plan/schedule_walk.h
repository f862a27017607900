// SPDX-License-Identifier: Apache-2.0
// Going through a schedule as its positions do: what verifying it, running it
// on paper and generating it have in common.
#pragma once

#include "plan/schedule.h"

#include <functional>
#include <vector>

namespace weft {

// Of a stage and a part: more than any pipeline has. Keeps a slip of the pen
// from taking all memory.
inline constexpr int64_t kMostPairs = int64_t{1} << 24;

// A value for every unit that the schedule's sizes allow.
template <typename T>
class UnitTable {
 public:
  UnitTable(const Schedule& schedule, T value)
      : stages_(schedule.stages),
        parts_(schedule.micro_batches * schedule.slices),
        values_(static_cast<size_t>(3 * stages_ * parts_), value) {}

  typename std::vector<T>::reference at(const Unit& unit) {
    const int64_t kind = static_cast<int64_t>(unit.kind);
    return values_.at(static_cast<size_t>(
        (kind * stages_ + unit.stage) * parts_ + unit.part));
  }

 private:
  int64_t stages_;
  int64_t parts_;
  std::vector<T> values_;
};

double cost_of(const UnitCosts& costs, UnitKind kind);

// A position that cannot go on.
struct Stuck {
  size_t position = 0;
  // The unit that it is at, and the first one that this waits for.
  Unit unit;
  Unit before;
};

// Takes each position through its order as far as units can begin, and calls
// `visit` for each unit after all that it waits for. Returns the positions that
// did not come to their end. Units are within the schedule's sizes.
std::vector<Stuck> walk(
    const Schedule& schedule,
    const std::function<void(size_t position, const Unit& unit)>& visit);

}  // namespace weft
