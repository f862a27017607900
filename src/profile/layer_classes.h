// SPDX-License-Identifier: Apache-2.0
// Repeated structure: the layers of a model that compute the same thing, each
// with parameters of its own. Found from the nodes alone (see structure.h);
// module names only serve to name what was found.
#pragma once

#include "graph/graph.h"
#include "profile/lifetimes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// The forward nodes from `first` to `last`.
struct LayerCopy {
  NodeId first = NodeId::None;
  NodeId last = NodeId::None;

  bool operator==(const LayerCopy&) const = default;
};

struct LayerClass {
  // The modules it covers, "blocks.{0..95}"; without any, the first value,
  // "from %h.1". A nested one has a star where its parents differ,
  // "blocks.*.attention.{query,key,value}".
  std::string name;
  // Copies; of a nested class, the copies in one copy of its parent.
  int64_t count = 0;
  // Of one copy: forward nodes, the numbers in the parameters that it reads,
  // and so on. One in the middle stands for all: the first may have a view
  // more, which the others read too, and keep more or less for backward.
  int64_t nodes = 0;
  int64_t parameters = 0;
  int64_t forward_flops = 0;
  int64_t activation_bytes = 0;
  // In their order; of a nested class, only those in the parent's first copy.
  std::vector<LayerCopy> copies;
  // Index of the class in whose copies this one is repeated, or -1.
  int32_t parent = -1;

  bool operator==(const LayerClass&) const = default;
};

// The classes that together cover most forward nodes, in their order; each is
// followed by those nested in it. `signatures` and `flops` are those of every
// node. A layer reads a parameter and has flops.
std::vector<LayerClass> layer_classes(
    const Function& function,
    const Lifetimes& lifetimes,
    const std::vector<int32_t>& signatures,
    const std::vector<int64_t>& flops);

}  // namespace weft
