// SPDX-License-Identifier: Apache-2.0
// Parameters and buffers as the model's constructor would make them, by the
// graph's function `init`.
#pragma once

#include "graph/graph.h"
#include "ops/op_def.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// The outputs of `init` in their order. Random numbers are counted
// (bind_kernel), so they follow from the seed alone. A value is freed when its
// last reader has run. Throws UserError when the graph has no `init` (a model
// captured live).
std::vector<at::Tensor> initialise(const Graph& graph, uint64_t seed);

// The same one by one, and of each only a piece: nodes that it does not follow
// from do not run, and those that can be split make its elements alone, block
// by block. A rank that fills what it keeps holds little more than that; where
// a node cannot be split, one tensor more.
class Initialiser {
 public:
  // Keeps a reference. Throws as `initialise` does.
  Initialiser(const Graph& graph, uint64_t seed);

  // Fills `into`, which has the sizes of `box` (one piece a dim), with that
  // part of the output. Throws UserError when `init` makes no such output.
  void fill(
      OutputKind kind,
      const std::string& key,
      const std::vector<Piece>& box,
      const at::Tensor& into) const;

 private:
  const Graph& graph_;
  const Function& init_;
  const uint64_t seed_;
  std::map<std::pair<OutputKind, std::string>, ValueId> outputs_;
};

}  // namespace weft
