// SPDX-License-Identifier: Apache-2.0
#include "lower/collectives.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace weft {
namespace {

std::vector<std::vector<std::string>> names(const Block& block) {
  std::vector<std::vector<std::string>> out;
  for (const size_t at : collectives(block)) {
    std::vector<std::string>& results = out.emplace_back();
    for (const ValueId result :
         std::get<Start>(block.instructions[at]).results) {
      results.push_back(block.function[result].name);
    }
  }
  return out;
}

}  // namespace

std::vector<size_t> collectives(const Block& block) {
  std::vector<size_t> out;
  for (size_t at = 0; at < block.instructions.size(); ++at) {
    const auto* start = std::get_if<Start>(&block.instructions[at]);
    if (start != nullptr && is_collective(start->kind)) {
      out.push_back(at);
    }
  }
  return out;
}

bool start_the_same(const std::vector<Block>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(), [&](const Block& block) {
    return names(block) == names(blocks.front());
  });
}

void run_by_stage(Lowering& lowering, void (*pass)(Lowering&)) {
  // A team is at one position, or is all of them.
  std::map<std::pair<int64_t, int64_t>, std::vector<Block>> stages;
  for (Block& block : lowering.program.blocks) {
    const Team team = team_of(lowering.program, block.first_rank);
    const int axis = find_axis(team.mesh, std::string(kPipelineAxis));
    const int64_t stage =
        axis < 0
            ? 0
            : coordinates(
                  team.mesh,
                  number_in(team, block.first_rank))[static_cast<size_t>(axis)];
    stages[{team.first_rank, stage}].push_back(std::move(block));
  }
  std::vector<Block> blocks;
  for (auto& [stage, mine] : stages) {
    lowering.program.blocks = std::move(mine);
    pass(lowering);
    std::move(
        lowering.program.blocks.begin(),
        lowering.program.blocks.end(),
        std::back_inserter(blocks));
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.first_rank < b.first_rank;
  });
  lowering.program.blocks = std::move(blocks);
}

}  // namespace weft
