// SPDX-License-Identifier: Apache-2.0
// What units cost under a key, so that any number of neighbours are added up at
// once.
#pragma once

#include "search/sample.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct UnitTable {
  // Why there is none; else empty.
  std::string reason = {};
  // Sums over the units before each.
  std::vector<UnitCost> before = {};
  // Of these, forward and backward.
  std::vector<double> before_seconds = {};
  // Of a unit, at the most.
  int64_t largest_parameter_bytes = 0;
  int64_t largest_gradient_bytes = 0;
  double slowest_seconds = 0;
};

// Of units that each cost as the one of `costs` that stands for it.
UnitTable unit_table(
    const std::vector<UnitCost>& costs, const std::vector<int32_t>& stands_for);

// What two runs of units cost, one after the other.
UnitCost sum(const UnitCost& a, const UnitCost& b);

// What units [begin, end) cost; temporaries are those of all units up to end.
UnitCost between(const UnitTable& table, int32_t begin, int32_t end);

}  // namespace weft
