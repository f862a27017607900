// SPDX-License-Identifier: Apache-2.0
// Each rank gets its stages' work, in the order of the plan's schedule.
//
// Before this pass a block has the work of all stages on all parts of the
// batch. Here its instructions are dealt out to the positions of the pipeline;
// what is made at one and read at another is sent. Stages of one mesh are
// played rank by rank: each sends to the one at its place in the other stage.
// Where meshes differ, all ranks play together (play_stages.h).
#include "lower/cut_crossings.h"
#include "lower/pass.h"
#include "lower/play_stages.h"
#include "lower/staged_items.h"
#include "lower/staged_step.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace weft {
namespace {

// The rank at the coordinates of one of a stage's, at position `p` of the
// pipeline.
int64_t rank_of(const Mesh& mesh, int64_t stage_rank, size_t p) {
  const std::vector<int64_t> where = coordinates(stage_mesh(mesh), stage_rank);
  int64_t rank = 0;
  size_t next = 0;
  for (const Axis& axis : mesh.axes) {
    const int64_t here =
        axis.name == kPipelineAxis ? static_cast<int64_t>(p) : where[next++];
    rank = rank * axis.size + here;
  }
  return rank;
}

std::vector<Player> players_at(
    const StagedStep& staged,
    const Block& block,
    const StagedItems& items,
    int64_t stage_rank) {
  const Mesh& mesh = staged.lowering.plan.mesh;
  std::vector<Player> players;
  for (size_t p = 0; p < staged.order.size(); ++p) {
    Player& player = players.emplace_back();
    player.rank = rank_of(mesh, stage_rank, p);
    player.position = p;
    player.block = &block;
    player.items = &items;
    player.staged = &staged;
    for (int64_t i = 0; i < rank_count(stage_mesh(mesh)); ++i) {
      player.stage_ranks.push_back(rank_of(mesh, i, p));
    }
  }
  return players;
}

// To every other position that reads a value.
Routes routes_between(const StagedItems& items, size_t values, size_t count) {
  Routes routes(count);
  for (size_t i = 0; i < values; ++i) {
    const auto value = static_cast<ValueId>(i);
    const size_t home = items.home(value);
    for (size_t other = 0; home != kEverywhere && other < count; ++other) {
      if (other != home && items.is_read_at(value, other)) {
        routes[home][value].push_back({other, value});
      }
    }
  }
  return routes;
}

std::vector<Block> cut_equal(const Lowering& lowering) {
  const StagedStep staged(lowering);
  std::vector<Block> blocks;
  for (size_t i = 0; i < lowering.program.blocks.size(); ++i) {
    const Block& block = lowering.program.blocks[i];
    const StagedItems items(staged, block, lowering.origins[i]);
    const Routes routes = routes_between(
        items, block.function.values.size(), staged.order.size());
    for (int64_t rank = block.first_rank; rank <= block.last_rank; ++rank) {
      for (Block& one :
           play_stages(players_at(staged, block, items, rank), routes)) {
        blocks.push_back(std::move(one));
      }
    }
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.first_rank < b.first_rank;
  });
  return blocks;
}

// Every rank of every position, with its block.
std::vector<PositionRank> position_ranks(const Lowering& lowering) {
  std::vector<PositionRank> ranks;
  for (const Lowering& one : lowering.by_position) {
    for (size_t i = 0; i < one.program.blocks.size(); ++i) {
      const Block& block = one.program.blocks[i];
      for (int64_t r = block.first_rank; r <= block.last_rank; ++r) {
        ranks.push_back(
            {&one,
             static_cast<int64_t>(ranks.size()),
             r,
             block,
             one.origins[i]});
      }
    }
  }
  return ranks;
}

std::vector<Block> cut_unequal(const Lowering& lowering) {
  std::vector<PositionRank> ranks = position_ranks(lowering);
  const Routes routes = cut_crossings(ranks);
  std::deque<StagedStep> staged;
  for (const Lowering& one : lowering.by_position) {
    staged.emplace_back(one);
  }
  std::deque<StagedItems> items;
  std::vector<Player> players;
  for (const PositionRank& rank : ranks) {
    const size_t position = *rank.lowering->position;
    items.emplace_back(staged[position], rank.block, rank.origins);
    Player& player = players.emplace_back();
    player.rank = rank.rank;
    player.position = position;
    player.block = &rank.block;
    player.items = &items.back();
    player.staged = &staged[position];
    const int64_t first = rank.rank - rank.number;
    for (int64_t i = 0; i < rank_count(rank.lowering->space); ++i) {
      player.stage_ranks.push_back(first + i);
    }
    player.team = Team{rank.lowering->space, first};
  }
  return play_stages(std::move(players), routes);
}

}  // namespace

void cut_stages(Lowering& lowering) {
  const bool is_unequal = !lowering.by_position.empty();
  if (!is_unequal &&
      rank_count(lowering.plan.mesh) == rank_count(lowering.space) &&
      rank_count(lowering.plan.time) == 1) {
    lowering.program.meshes = {lowering.plan.mesh};
    lowering.program.time = lowering.plan.time;
    lowering.origins.clear();
    return;
  }
  Program program;
  program.name = lowering.graph.name;
  program.meshes = is_unequal ? position_meshes(lowering.plan)
                              : std::vector<Mesh>{lowering.plan.mesh};
  program.time = lowering.plan.time;
  program.constants = lowering.graph.constants;
  std::vector<Block> blocks =
      is_unequal ? cut_unequal(lowering) : cut_equal(lowering);
  lowering.by_position.clear();
  lowering.origins.clear();
  for (Block& block : blocks) {
    block.function.name = step_of(lowering.graph).name;
    add_block(program, lowering.origins, std::move(block), {});
  }
  name_blocks(program);
  lowering.program = std::move(program);
}

}  // namespace weft
