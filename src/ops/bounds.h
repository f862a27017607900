// SPDX-License-Identifier: Apache-2.0
// What is known of integers before a step runs.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>

namespace weft {

// A number that every element of an integer value is below of, none of them
// negative: positions that topk, sort or argmax found in a dim, and what views
// and copies make of them. None where nothing is known.
std::optional<int64_t> upper_bound(const Function& function, ValueId value);

}  // namespace weft
