// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>

namespace weft {

// A value that is made, or kept, at one stage of a pipeline and read at another
// whose ranks have another mesh.
struct Crossing {
  int64_t from_stage = 0;
  int64_t to_stage = 0;
};

// What a node of a step says of it; none for every other node.
std::optional<Crossing> crossing_of(const Node& node);

// `weft.cross(value, from, to)`: the value itself, without gaps. It is linear
// in nothing, so that no partial sum crosses. It has no results yet.
Node crossing_node(ValueId value, const Crossing& crossing, Phase phase);

}  // namespace weft
