// SPDX-License-Identifier: Apache-2.0
// Lets all ranks run, without times: a start never waits, a wait waits until
// all members have started, and each pair of ranks or group takes its transfers
// in the order in which they were started.
#include "base/error.h"
#include "program/verify_parts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {
namespace {

// Between which ranks: a group, or {from, to}.
struct Lane {
  bool is_group = false;
  std::vector<int64_t> ranks;
  auto operator<=>(const Lane&) const = default;
};

struct Rank {
  const Block* block = nullptr;
  Team team;
  size_t next = 0;
  // How many transfers it has started in each lane.
  std::map<Lane, size_t> started;
  // By result: the lane, and its number there.
  std::map<ValueId, std::pair<Lane, size_t>> waits;
};

class Meetings {
 public:
  explicit Meetings(const Program& program) : program_(program) {
    for (int64_t rank = 0; rank < rank_count(program); ++rank) {
      ranks_.push_back(
          {&block_of(program, rank), team_of(program, rank), 0, {}, {}});
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (step(static_cast<int64_t>(rank))) {
          moved = true;
        }
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Rank& state = ranks_[rank];
      if (state.next < state.block->instructions.size()) {
        throw UserError(
            cat(place_in(program_, *state.block, state.next),
                "rank ",
                rank,
                " waits for ever: ",
                missing(state)));
      }
      check_sent(static_cast<int64_t>(rank));
    }
  }

 private:
  bool step(int64_t rank) {
    Rank& state = ranks_[static_cast<size_t>(rank)];
    if (state.next == state.block->instructions.size()) {
      return false;
    }
    const Instruction& instruction = state.block->instructions[state.next];
    if (const auto* start = std::get_if<Start>(&instruction)) {
      if (start->kind != TransferKind::Copy) {
        begin(rank, state, *start);
      }
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      const auto found = state.waits.find(wait->value);
      if (found != state.waits.end() && !all_there(found->second)) {
        return false;
      }
    }
    ++state.next;
    return true;
  }

  void begin(int64_t rank, Rank& state, const Start& start) {
    Lane lane;
    if (is_collective(start.kind)) {
      lane = {true, group_of(state.team, start.axes, rank)};
    } else {
      check(
          state,
          start.peer >= 0 && start.peer < rank_count(program_) &&
              start.peer != rank,
          cat("there is no other rank ", start.peer));
      lane = start.kind == TransferKind::Send ? Lane{false, {rank, start.peer}}
                                              : Lane{false, {start.peer, rank}};
    }
    const size_t number = state.started[lane]++;
    for (const ValueId result : start.results) {
      state.waits[result] = {lane, number};
    }
    // What the first one to come starts, the others must too.
    const auto [found, is_new] = agreed_.try_emplace({lane, number});
    const std::string what = describe(*state.block, start);
    if (is_new) {
      found->second = {what, rank};
      return;
    }
    check(
        state,
        found->second.what == what,
        cat("rank ",
            rank,
            " starts a transfer of ",
            what,
            " where rank ",
            found->second.rank,
            " starts one of ",
            found->second.what));
  }

  static std::string describe(const Block& block, const Start& start) {
    std::vector<std::string> types;
    for (const ValueId result : start.results) {
      types.push_back(print(block.function[result].type));
    }
    return is_collective(start.kind)
               ? cat(join(types, ", "), " by ", name(start.kind))
               : join(types, ", ");
  }

  bool all_there(const std::pair<Lane, size_t>& meeting) const {
    const auto& [lane, number] = meeting;
    return std::all_of(lane.ranks.begin(), lane.ranks.end(), [&](int64_t rank) {
      const auto& started = ranks_[static_cast<size_t>(rank)].started;
      const auto found = started.find(lane);
      return found != started.end() && found->second > number;
    });
  }

  std::string missing(const Rank& state) const {
    const auto& wait = std::get<Wait>(state.block->instructions[state.next]);
    const auto& [lane, number] = state.waits.at(wait.value);
    std::vector<std::string> names;
    for (const int64_t rank : lane.ranks) {
      const auto& started = ranks_[static_cast<size_t>(rank)].started;
      const auto found = started.find(lane);
      if (found == started.end() || found->second <= number) {
        names.push_back(cat(rank));
      }
    }
    return cat("rank ", join(names, ", "), " never starts its part before");
  }

  // A send whose other side never comes is never waited for on that side.
  void check_sent(int64_t rank) {
    for (const auto& [lane, count] :
         ranks_[static_cast<size_t>(rank)].started) {
      for (const int64_t other : lane.ranks) {
        const auto& started = ranks_[static_cast<size_t>(other)].started;
        const auto found = started.find(lane);
        const size_t theirs = found == started.end() ? 0 : found->second;
        WEFT_CHECK_USER(
            theirs == count,
            "program @",
            program_.name,
            ": rank ",
            rank,
            " starts ",
            count,
            " transfer(s) with rank ",
            other,
            ", which starts ",
            theirs);
      }
    }
  }

  void check(const Rank& state, bool condition, const std::string& what) const {
    if (!condition) {
      throw UserError(cat(place_in(program_, *state.block, state.next), what));
    }
  }

  struct Agreed {
    std::string what;
    int64_t rank = 0;
  };

  const Program& program_;
  std::vector<Rank> ranks_;
  std::map<std::pair<Lane, size_t>, Agreed> agreed_;
};

bool has_peers(const Program& program) {
  for (const Block& block : program.blocks) {
    for (const Instruction& instruction : block.instructions) {
      const auto* start = std::get_if<Start>(&instruction);
      if (start != nullptr && start->peer >= 0) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void verify_meetings(const Program& program) {
  // Ranks that do the same start the same.
  if (program.blocks.size() > 1 || has_peers(program)) {
    Meetings(program).run();
  }
}

}  // namespace weft
