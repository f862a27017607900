// SPDX-License-Identifier: Apache-2.0
// What is known of elements before a step runs.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>

namespace weft {

// A number that every element of an integer value is below of, none of them
// negative: positions that topk, sort or argmax found in a dim, and what views
// and copies make of them. None where nothing is known.
std::optional<int64_t> upper_bound(const Function& function, ValueId value);

// What a comparison of uniform random numbers with a number gives whatever is
// drawn, because they are at least 0 and below 1: layers that are dropped with
// probability 0. None where it depends on what is drawn, and of other values.
std::optional<bool> decided_comparison(const Function& function, ValueId value);

}  // namespace weft
