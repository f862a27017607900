// SPDX-License-Identifier: Apache-2.0
#include "program/holding.h"

#include "program/piece.h"

#include <algorithm>

namespace weft {

bool is_everywhere(const Holding& holding, const Mesh& mesh) {
  return static_cast<int64_t>(holding.ranks.size()) == rank_count(mesh) &&
         std::all_of(
             holding.layout.dims.begin(),
             holding.layout.dims.end(),
             [&](const Levels& levels) {
               return ways(mesh, axes_of(levels)) == 1;
             });
}

Holding holding_of(const Program& program, const Block& block, ValueId value) {
  const TensorType& type = block.function[value].type;
  const Layout& layout = block.layouts[index(value)];
  return {
      make_type(type.dtype, whole_sizes(type, layout, program.mesh)),
      layout,
      {}};
}

void add_ranks(Holding& holding, const Block& block) {
  for (int64_t rank = block.first_rank; rank <= block.last_rank; ++rank) {
    holding.ranks.push_back(rank);
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
      add_ranks(found->holding, block);
    }
  }
  return all;
}

}  // namespace weft
