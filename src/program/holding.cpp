// SPDX-License-Identifier: Apache-2.0
#include "program/holding.h"

#include "program/piece.h"

#include <algorithm>
#include <utility>

namespace weft {

bool is_everywhere(const Holding& holding) {
  return holding.whole_ranks == holding.all_ranks;
}

Holding holding_of(const Program& program, const Block& block, ValueId value) {
  const TensorType& type = block.function[value].type;
  const Layout& layout = block.layouts[index(value)];
  Team team = team_of(program, block.first_rank);
  TensorType whole =
      make_type(type.dtype, whole_sizes(type, layout, team.mesh));
  return {
      .whole = std::move(whole),
      .team = std::move(team),
      .layout = layout,
      .ranks = {},
      .whole_ranks = 0,
      .all_ranks = rank_count(program)};
}

void add_ranks(
    Holding& holding,
    const Program& program,
    const Block& block,
    ValueId value) {
  const Team team = team_of(program, block.first_rank);
  const std::vector<Levels>& dims = block.layouts[index(value)].dims;
  const bool is_whole =
      std::all_of(dims.begin(), dims.end(), [&](const Levels& levels) {
        return ways(team.mesh, axes_of(levels)) == 1;
      });
  for (int64_t rank = block.first_rank; rank <= block.last_rank; ++rank) {
    if (team == holding.team) {
      holding.ranks.push_back(rank);
    }
    holding.whole_ranks += is_whole ? 1 : 0;
  }
}

std::vector<HeldOutput> held_outputs(const Program& program) {
  std::vector<HeldOutput> all;
  for (const Block& block : program.blocks) {
    for (const Output& output : block.function.outputs) {
      auto found =
          std::find_if(all.begin(), all.end(), [&](const HeldOutput& one) {
            return one.kind == output.kind && one.key == output.key;
          });
      if (found == all.end()) {
        all.push_back(
            {output.kind,
             output.key,
             holding_of(program, block, output.value)});
        found = all.end() - 1;
      }
      add_ranks(found->holding, program, block, output.value);
    }
  }
  return all;
}

}  // namespace weft
