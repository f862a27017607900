// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/spot.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// One entry a value; set for those that are split.
using Spots = std::vector<std::optional<Spot>>;

struct TensorSplit {
  Spots parameters;
  // Values of forward that come out split.
  Spots values;
};

// Which parameters to split over an axis of `ways` ranks so that products in a
// row exchange once a pair. A product whose input is split along what it sums
// over is split there too, by rows, and leaves partial sums. Any other is split
// by columns, if that split ends in the sums of products with other parameters
// and meets nothing on its way that must be whole. Biases and the like follow.
//
// With `vocabulary`, the last products before the loss are split by columns
// whatever comes after, and tables that the batch looks up by rows, if that
// leaves each rank kLeastRows.
constexpr int64_t kLeastRows = 16;
TensorSplit tensor_split(const StepRules& rules, int64_t ways, bool vocabulary);

// Parameters that hold one matrix an expert, split by experts: those with a dim
// of its own that both factors of a product and its result share; those that
// rows sorted by expert meet (ops/sorted_rows.h), with their tables of one row
// an expert; and those of which tokens look up a matrix each.
Spots expert_split(const StepRules& rules, int64_t ways);
// How many experts the step has: as many ways as all of them can be split; 1
// where it has none.
int64_t expert_count(const StepRules& rules);

}  // namespace weft
