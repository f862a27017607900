// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism over two or three axes: tokens and channels are split
// everywhere, so that no rank ever holds a whole row between products.
#pragma once

#include "plan/sequence_split.h"
#include "plan/spot.h"

#include <optional>
#include <vector>

namespace weft {

// What a value is split into: the batch over `tokens`, channels over `channel`.
struct GridValue {
  ValueId value = ValueId::None;
  Axes tokens;
  Spot spot;
  Axes channel;
};

// A dim of a parameter, or two, as forward reads it and as it is stored.
struct GridParameter {
  ValueId value = ValueId::None;
  struct Part {
    Spot spot;
    Axes compute;
    Axes stored;
  };
  std::vector<Part> parts;
};

struct GridSplit {
  std::vector<GridParameter> parameters;
  std::vector<GridValue> values;
};

// Over <x, y>, channels are over y. A product gathers its weight over x and its
// input over y. Over <x, y, z>, a product of channels over z with a weight over
// both gives partial sums over z, which are scattered along the tokens, and
// channels over y; the next one goes back to z. What lies between follows.
GridSplit grid_split(const StepRules& rules, const std::vector<Axis>& axes);

}  // namespace weft
