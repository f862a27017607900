// SPDX-License-Identifier: Apache-2.0
#include "program/team.h"

#include "base/error.h"
#include "program/program.h"

#include <algorithm>

namespace weft {

int64_t rank_count(const Program& program) {
  int64_t ranks = 0;
  for (const Mesh& mesh : program.meshes) {
    ranks += rank_count(mesh);
  }
  return ranks;
}

Team team_of(const Program& program, int64_t rank) {
  int64_t first = 0;
  for (const Mesh& mesh : program.meshes) {
    const int64_t end = first + rank_count(mesh);
    if (first <= rank && rank < end) {
      return {mesh, first};
    }
    first = end;
  }
  throw UserError(
      cat("program @",
          program.name,
          " has ",
          first,
          " rank(s), and no rank ",
          rank));
}

int64_t number_in(const Team& team, int64_t rank) {
  return rank - team.first_rank;
}

std::vector<int64_t> group_of(
    const Mesh& mesh, const Axes& axes, int64_t rank) {
  const std::vector<int64_t> own = coordinates(mesh, rank);
  std::vector<int64_t> group;
  for (int64_t other = 0; other < rank_count(mesh); ++other) {
    const std::vector<int64_t> theirs = coordinates(mesh, other);
    bool together = true;
    for (size_t i = 0; i < mesh.axes.size(); ++i) {
      const bool may_differ =
          std::find(axes.begin(), axes.end(), mesh.axes[i].name) != axes.end();
      together = together && (may_differ || own[i] == theirs[i]);
    }
    if (together) {
      group.push_back(other);
    }
  }
  return group;
}

std::vector<int64_t> group_of(
    const Team& team, const Axes& axes, int64_t rank) {
  std::vector<int64_t> group = group_of(team.mesh, axes, number_in(team, rank));
  for (int64_t& one : group) {
    one += team.first_rank;
  }
  return group;
}

}  // namespace weft
