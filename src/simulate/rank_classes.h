// SPDX-License-Identifier: Apache-2.0
// Ranks that need not be simulated one by one.
#pragma once

#include "cluster/cluster.h"
#include "program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// What an instruction is to the clock.
struct Action {
  enum class Kind : uint8_t { Call, Start, Wait, Free };
  Kind kind = Kind::Free;
  // Of a call.
  double seconds = 0;
  bool is_recompute = false;
  // Of a start: what a rank takes from others, or copies.
  TransferKind transfer = TransferKind::AllReduce;
  int64_t bytes = 0;
  // Collectives: the axes' names, each with a space behind it. Sends and
  // receives: the other rank, less this one.
  std::string axes;
  int64_t peer_offset = 0;
  // Of a wait: the number of the instruction that started it.
  size_t start = 0;
  int64_t live_bytes = 0;

  auto operator<=>(const Action&) const = default;
};

// Ranks whose actions are the same, on devices of the same kind, and that meet
// ranks of the same classes over links of the same kind: all of them are where
// the first one is at any time.
struct RankClass {
  std::vector<int64_t> ranks;
  // One an instruction.
  std::vector<Action> actions;
};

struct RankClasses {
  std::vector<RankClass> classes;
  // By rank, its class.
  std::vector<size_t> of_rank;
};

RankClasses rank_classes(const Program& program, const Cluster& cluster);

// Of a collective over `axes` (as in Action), the group of every rank, in
// order.
std::vector<std::vector<int64_t>> groups_by_rank(
    const Program& program, const std::string& axes);

}  // namespace weft
