// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "profile/lifetimes.h"
#include "profile/structure.h"

#include <cstdint>
#include <vector>

namespace weft {

// Equal layers one after another: `count` copies of `period` nodes of the
// forward sequence, from position `begin` on.
struct LayerRun {
  int32_t begin = 0;
  int32_t period = 0;
  int32_t count = 0;
  // Index of the run in whose first copy this one lies, or -1.
  int32_t parent = -1;

  int32_t end() const { return begin + period * count; }
  bool operator==(const LayerRun&) const = default;
};

// What tells where layers may begin and what is worth calling a layer. Index i
// of the first two is the boundary before node i; there is one more than nodes.
struct LayerSigns {
  // Bytes that nodes before the boundary make and nodes after it read.
  std::vector<int64_t> crossing_bytes;
  // How many levels of modules the nodes on both sides share.
  std::vector<int32_t> shared_levels;
  // By node.
  std::vector<bool> reads_parameter;
  std::vector<int64_t> flops;
};

// `flops` has the figure of every node of the function.
LayerSigns read_signs(
    const Function& function,
    const Lifetimes& lifetimes,
    const std::vector<int64_t>& flops,
    const ForwardSequence& sequence);

// The disjoint runs of layers that together cover most nodes, in their order,
// each followed by those chosen likewise inside its first copy. A layer reads a
// parameter and has flops. Where copies could begin at several nodes, they
// begin where the fewest bytes cross, and then where modules begin.
std::vector<LayerRun> select_layers(
    const std::vector<Stretch>& stretches, const LayerSigns& signs);

}  // namespace weft
