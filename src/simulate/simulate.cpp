// SPDX-License-Identifier: Apache-2.0
// Every rank has a clock for its calls. A transfer happens when all its members
// have started it and the wires of each are free: a collective takes both
// directions, a send one of either side, a copy the way to the host. Whatever
// can happen first happens first, on whichever rank: so no transfer takes a
// wire before one that is ready sooner.
#include "simulate/simulate.h"

#include "base/error.h"
#include "profile/signatures.h"
#include "program/live_bytes.h"
#include "program/transfer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace weft {

double call_seconds(const NodeCosts& costs, DType dtype, const Device& device) {
  const double compute =
      static_cast<double>(costs.flops) / flops_per_second(device, dtype);
  const double memory =
      static_cast<double>(costs.read_bytes + costs.written_bytes) /
      device.memory_bytes_per_second;
  return std::max({compute, memory, device.call_seconds});
}

double transfer_seconds(
    TransferKind kind, int64_t ranks, int64_t taken_bytes, const Link& link) {
  int64_t messages = 0;
  switch (kind) {
    case TransferKind::AllReduce:
      messages = 2 * (ranks - 1);
      break;
    case TransferKind::AllGather:
    case TransferKind::ReduceScatter:
    case TransferKind::AllToAll:
      messages = ranks - 1;
      break;
    case TransferKind::Send:
    case TransferKind::Receive:
      messages = 1;
      break;
    case TransferKind::Copy:
      WEFT_CHECK(false, "a copy takes no link");
  }
  return static_cast<double>(messages) * link.latency_seconds +
         static_cast<double>(taken_bytes) / link.bytes_per_second;
}

double copy_seconds(int64_t bytes, const Device& device) {
  return 2 * static_cast<double>(bytes) / device.memory_bytes_per_second;
}

namespace {

// Between which ranks transfers keep their order: a group, {from, to}, or one
// rank and its host.
struct Lane {
  bool is_group = false;
  std::vector<int64_t> ranks;
  auto operator<=>(const Lane&) const = default;
};

// One transfer.
struct Meeting {
  Lane lane;
  double cost_seconds = 0;
  size_t arrived = 0;
  // When the last member started it, and each member's event.
  double ready_seconds = 0;
  std::vector<size_t> events;
  bool done = false;
  double end_seconds = 0;
};

// What is the same for all ranks of a block.
struct BlockCosts {
  std::vector<NodeCosts> nodes;
  std::vector<int64_t> live;
};

struct RankState {
  const Block* block = nullptr;
  const BlockCosts* costs = nullptr;
  size_t next = 0;
  double now_seconds = 0;
  // When its wires are free again.
  double out_free_seconds = 0;
  double in_free_seconds = 0;
  double host_free_seconds = 0;
  // By the value that it makes.
  std::map<ValueId, Meeting*> meetings;
  // How many transfers it has started in each lane.
  std::map<Lane, size_t> started;
  std::vector<Event> events;
};

class Simulation {
 public:
  Simulation(const Program& program, const Cluster& cluster)
      : program_(program), cluster_(cluster) {
    for (int64_t rank = 0; rank < rank_count(program); ++rank) {
      RankState state;
      state.block = &block_of(program, rank);
      BlockCosts& costs = costs_[state.block];
      if (costs.live.empty()) {
        const Function& function = state.block->function;
        costs.nodes = node_costs(function, signatures(function));
        costs.live = live_bytes(*state.block);
      }
      state.costs = &costs;
      ranks_.push_back(std::move(state));
    }
  }

  Timeline run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      let_go_on(static_cast<int64_t>(rank));
    }
    while (!ready_.empty() || !going_.empty()) {
      const auto first = first_meeting();
      if (first != ready_.end() &&
          (going_.empty() || start_seconds(**first) <= going_.begin()->first)) {
        meet(first);
        continue;
      }
      const int64_t rank = going_.begin()->second;
      going_.erase(going_.begin());
      RankState& state = ranks_[static_cast<size_t>(rank)];
      step(rank, state);
      ++state.next;
      let_go_on(rank);
    }
    Timeline timeline;
    timeline.program = program_.name;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      RankState& state = ranks_[rank];
      WEFT_CHECK_USER(
          state.next == state.block->instructions.size(),
          "program @",
          program_.name,
          ": rank ",
          rank,
          " waits for ever at instruction ",
          state.next,
          " (",
          label(*state.block, state.block->instructions[state.next]),
          "): another rank never starts its part");
      timeline.events.insert(
          timeline.events.end(), state.events.begin(), state.events.end());
    }
    return timeline;
  }

 private:
  // Unless it is done, or has to wait.
  void let_go_on(int64_t rank) {
    const RankState& state = ranks_[static_cast<size_t>(rank)];
    if (state.next == state.block->instructions.size()) {
      return;
    }
    const auto* wait =
        std::get_if<Wait>(&state.block->instructions[state.next]);
    if (wait == nullptr || state.meetings.at(wait->value)->done) {
      going_.insert({state.now_seconds, rank});
    }
  }

  // Its next instruction.
  void step(int64_t rank, RankState& state) {
    const Block& block = *state.block;
    const Instruction& instruction = block.instructions[state.next];
    Event event;
    event.rank = rank;
    event.instruction = static_cast<int64_t>(state.next);
    event.start_seconds = state.now_seconds;
    event.live_bytes = state.costs->live[state.next];
    event.label = label(block, instruction);
    if (const auto* call = std::get_if<Call>(&instruction)) {
      const Node& node = block.function.nodes[index(call->node)];
      state.now_seconds += call_seconds(
          state.costs->nodes[index(call->node)],
          block.function[node.results.front()].type.dtype,
          cluster_.device);
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      event.stream = Stream::Communication;
      begin(rank, state, *start);
    } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
      const Meeting& meeting = *state.meetings.at(wait->value);
      state.now_seconds = std::max(state.now_seconds, meeting.end_seconds);
    }
    event.end_seconds = state.now_seconds;
    state.events.push_back(std::move(event));
  }

  Lane lane_of(int64_t rank, const Start& start) const {
    if (is_collective(start.kind)) {
      return {true, group_of(team_of(program_, rank), start.axes, rank)};
    }
    switch (start.kind) {
      case TransferKind::Send:
        return {false, {rank, start.peer}};
      case TransferKind::Receive:
        return {false, {start.peer, rank}};
      default:
        return {false, {rank}};
    }
  }

  double cost_seconds(
      const Block& block, const Start& start, const Lane& lane) const {
    const int64_t bytes = transfer_bytes(block, start);
    if (start.kind == TransferKind::Copy) {
      return copy_seconds(bytes, cluster_.device);
    }
    if (lane.ranks.size() == 1) {
      return 0;
    }
    return transfer_seconds(
        start.kind,
        static_cast<int64_t>(lane.ranks.size()),
        is_collective(start.kind)
            ? wire_bytes(team_of(program_, block.first_rank).mesh, block, start)
            : bytes,
        link_between(cluster_, lane.ranks));
  }

  void begin(int64_t rank, RankState& state, const Start& start) {
    const Lane lane = lane_of(rank, start);
    const size_t number = state.started[lane]++;
    Meeting& meeting = meetings_[{lane, number}];
    if (meeting.lane.ranks.empty()) {
      meeting.lane = lane;
      meeting.events.resize(lane.ranks.size());
      meeting.cost_seconds = cost_seconds(*state.block, start, lane);
    }
    const auto member = std::find(lane.ranks.begin(), lane.ranks.end(), rank);
    meeting.events[static_cast<size_t>(member - lane.ranks.begin())] =
        state.events.size();
    meeting.arrived += 1;
    meeting.ready_seconds = std::max(meeting.ready_seconds, state.now_seconds);
    if (meeting.arrived == lane.ranks.size()) {
      ready_.push_back(&meeting);
    }
    for (const ValueId result : start.results) {
      state.meetings[result] = &meeting;
    }
  }

  // What the transfer occupies.
  std::vector<double*> wires(const Meeting& meeting) {
    std::vector<double*> out;
    const std::vector<int64_t>& ranks = meeting.lane.ranks;
    for (size_t i = 0; i < ranks.size(); ++i) {
      RankState& state = ranks_[static_cast<size_t>(ranks[i])];
      if (ranks.size() == 1) {
        out.push_back(&state.host_free_seconds);
        continue;
      }
      if (meeting.lane.is_group || i == 0) {
        out.push_back(&state.out_free_seconds);
      }
      if (meeting.lane.is_group || i == 1) {
        out.push_back(&state.in_free_seconds);
      }
    }
    return out;
  }

  double start_seconds(const Meeting& meeting) {
    double start = meeting.ready_seconds;
    for (const double* free : wires(meeting)) {
      start = std::max(start, *free);
    }
    return start;
  }

  // Of those whose members have all started it, the one that can begin first.
  // Those of one lane are ready in their order, and stay in it.
  std::vector<Meeting*>::iterator first_meeting() {
    return std::min_element(
        ready_.begin(),
        ready_.end(),
        [this](const Meeting* a, const Meeting* b) {
          return start_seconds(*a) < start_seconds(*b);
        });
  }

  // The transfer happens.
  void meet(std::vector<Meeting*>::iterator first) {
    Meeting& meeting = **first;
    ready_.erase(first);
    meeting.done = true;
    meeting.end_seconds = start_seconds(meeting) + meeting.cost_seconds;
    for (double* free : wires(meeting)) {
      *free = meeting.end_seconds;
    }
    for (size_t i = 0; i < meeting.lane.ranks.size(); ++i) {
      const int64_t rank = meeting.lane.ranks[i];
      RankState& state = ranks_[static_cast<size_t>(rank)];
      state.events[meeting.events[i]].end_seconds = meeting.end_seconds;
      let_go_on(rank);
    }
  }

  const Program& program_;
  const Cluster& cluster_;
  std::map<const Block*, BlockCosts> costs_;
  std::vector<RankState> ranks_;
  // By lane and number within it.
  std::map<std::pair<Lane, size_t>, Meeting> meetings_;
  // Those that all members have started and that have not happened, in the
  // order in which they came to be so.
  std::vector<Meeting*> ready_;
  // Ranks that can go on, and their clocks.
  std::set<std::pair<double, int64_t>> going_;
};

}  // namespace

Timeline simulate(const Program& program, const Cluster& cluster) {
  WEFT_CHECK_USER(
      rank_count(program) <= device_count(cluster),
      "program @",
      program.name,
      " has ",
      rank_count(program),
      " rank(s), and cluster @",
      cluster.name,
      " ",
      device_count(cluster),
      " device(s)");
  return Simulation(program, cluster).run();
}

}  // namespace weft
