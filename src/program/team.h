// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"

#include <cstdint>
#include <vector>

namespace weft {

struct Program;

// Ranks one after the other on a mesh of their own. Collectives, and layouts,
// are among the ranks of a team; most programs have one.
struct Team {
  Mesh mesh;
  int64_t first_rank = 0;

  bool operator==(const Team&) const = default;
};

int64_t rank_count(const Program& program);
// The rank's. Throws UserError when the program has no such rank.
Team team_of(const Program& program, int64_t rank);
// Where a rank of the team is on its mesh.
int64_t number_in(const Team& team, int64_t rank);

// The ranks that take part with `rank` in a collective over `axes`, in order.
std::vector<int64_t> group_of(const Mesh& mesh, const Axes& axes, int64_t rank);
std::vector<int64_t> group_of(const Team& team, const Axes& axes, int64_t rank);

}  // namespace weft
