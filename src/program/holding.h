// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "graph/tensor_type.h"
#include "program/program.h"
#include "program/team.h"

#include <cstdint>
#include <vector>

namespace weft {

// Who has which piece of a tensor. In a pipeline the ranks of a stage have what
// belongs to it, and the others nothing.
struct Holding {
  TensorType whole;
  // The first team that has it, on its mesh. Other teams may have it too.
  Team team;
  Layout layout;
  // Of the team, in order.
  std::vector<int64_t> ranks;
  // How many ranks of all have all of it, and how many there are.
  int64_t whole_ranks = 0;
  int64_t all_ranks = 0;
};

// Whether every rank has all of it.
bool is_everywhere(const Holding& holding);

// What the ranks of a program return between them, in the order of the blocks:
// the same list on every rank.
struct HeldOutput {
  OutputKind kind = OutputKind::Extra;
  std::string key;
  Holding holding;
};
std::vector<HeldOutput> held_outputs(const Program& program);

// A value of the block, as its ranks have it; without the ranks.
Holding holding_of(const Program& program, const Block& block, ValueId value);
// The block's ranks have it too, as `value`.
void add_ranks(
    Holding& holding,
    const Program& program,
    const Block& block,
    ValueId value);

}  // namespace weft
