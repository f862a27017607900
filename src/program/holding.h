// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/tensor_type.h"
#include "program/program.h"

#include <cstdint>
#include <vector>

namespace weft {

// Who has which piece of a tensor. In a pipeline the ranks of a stage have what
// belongs to it, and the others nothing.
struct Holding {
  TensorType whole;
  // On the program's mesh.
  Layout layout;
  // In order.
  std::vector<int64_t> ranks;
};

// Whether every rank of the mesh has all of it.
bool is_everywhere(const Holding& holding, const Mesh& mesh);

// What the ranks of a program return between them, in the order of the blocks:
// the same list on every rank.
struct HeldOutput {
  OutputKind kind = OutputKind::Extra;
  std::string key;
  Holding holding;
};
std::vector<HeldOutput> held_outputs(const Program& program);

// A value of the block, as its ranks have it.
Holding holding_of(const Program& program, const Block& block, ValueId value);
// The block's ranks have it too.
void add_ranks(Holding& holding, const Block& block);

}  // namespace weft
