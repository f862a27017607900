// SPDX-License-Identifier: Apache-2.0
// How many ranks this machine can hold, asked before the first of them starts:
// without a bound, a number in a plan file would be a fork bomb.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Of more ranks than this on a core one must say that one means them.
inline constexpr int64_t kMostRanksPerCore = 4;

// What a rank takes at the very least, as was seen of ranks that train next to
// nothing: memory of its own, with LibTorch loaded, and threads.
inline constexpr int64_t kLeastRankBytes = int64_t{64} << 20;
inline constexpr int64_t kLeastRankTasks = 6;

// Something that bounds how many ranks can be started.
struct RoomLimit {
  // So many more.
  int64_t ranks = 0;
  // What is there, and what a rank takes of it.
  std::string reason;
  std::string way_out;
};

struct RankRoom {
  // That this process may use.
  int64_t cores = 1;
  std::vector<RoomLimit> limits;
};

// Of this process, now: memory, by the system and by its control groups (v1 and
// v2, each with those around it), and processes, by RLIMIT_NPROC where it
// holds, which it does not for root, and by the control groups. What the system
// does not tell bounds nothing. `root` is where /proc and the control groups
// are looked for.
RankRoom rank_room(const std::string& root = "");

// Who asks for ranks, in a message: "--nproc", "big.plan".
struct RankRequest {
  int64_t ranks = 1;
  std::string asked_by = "the run";
  // Also more than kMostRanksPerCore.
  bool oversubscribe = false;
};

// Throws UserError where so many cannot be started, or are too many for the
// cores: with the number asked for, the bound, where it comes from and the way
// out.
void verify_room(const RankRequest& request, const RankRoom& room);
// Of this machine. One rank, which needs no start, always has room.
void verify_room(const RankRequest& request);

}  // namespace weft
