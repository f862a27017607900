// SPDX-License-Identifier: Apache-2.0
// The order in which the ranks of a pipeline do their work.
//
// It is found by playing the step through, all ranks side by side: each takes
// its next instruction when what it reads is there. What goes to another rank
// is sent as soon as it is made. A receive is started when the other side has
// sent, or when it is needed; a send is waited for when something has come back
// that was sent after its receive was started, which costs no time, or at the
// end. So every rank's order is a part of one order of all of them, and none
// can wait for ever. Where a part needs something of all parts (a batch norm
// over the whole batch), the schedule cannot be kept, and whatever can go on
// does.
#pragma once

#include "lower/staged_items.h"
#include "program/program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace weft {

// A rank that plays. What it points to must outlive the play.
struct Player {
  int64_t rank = 0;
  size_t position = 0;
  // The work of all positions; `items` of this block.
  const Block* block = nullptr;
  const StagedItems* items = nullptr;
  const StagedStep* staged = nullptr;
  // Its stage's ranks, in the order of the stage's mesh.
  std::vector<int64_t> stage_ranks;
  // Where all of these play: they meet at collectives. None: each does the same
  // as another that does not play, and meets that.
  std::optional<Team> team = std::nullopt;
};

// To which player a value goes, and which of its block's it is there.
struct Route {
  size_t player = 0;
  ValueId value = ValueId::None;
};
// By player, of its values.
using Routes = std::vector<std::map<ValueId, std::vector<Route>>>;

// Players with a team are numbered as ranks are. One block a player.
std::vector<Block> play_stages(
    std::vector<Player> players, const Routes& routes);

}  // namespace weft
