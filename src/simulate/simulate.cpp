// SPDX-License-Identifier: Apache-2.0
// Every rank has a clock for its calls and a queue of collectives. A rank runs
// until it waits for a collective that another member has not started; a
// collective happens when it is first in the queue of all its members.
#include "simulate/simulate.h"

#include "base/error.h"
#include "profile/signatures.h"
#include "program/live_bytes.h"

#include <algorithm>
#include <deque>
#include <map>
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

double all_reduce_seconds(int64_t ranks, int64_t bytes, const Link& link) {
  const auto n = static_cast<double>(ranks);
  return 2 * (n - 1) * link.latency_seconds +
         2 * (n - 1) / n * static_cast<double>(bytes) / link.bytes_per_second;
}

namespace {

// One collective of one group of ranks.
struct Meeting {
  std::vector<int64_t> ranks;
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
  double link_free_seconds = 0;
  std::deque<Meeting*> queue;
  // By the value that it makes.
  std::map<ValueId, Meeting*> meetings;
  // How many collectives it has started in each group.
  std::map<std::vector<int64_t>, size_t> started;
  std::vector<Event> events;
};

class Simulation {
 public:
  Simulation(const Program& program, const Cluster& cluster)
      : program_(program), cluster_(cluster) {
    for (int64_t rank = 0; rank < rank_count(program.mesh); ++rank) {
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
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        moved = advance(static_cast<int64_t>(rank)) || moved;
      }
      moved = meet() || moved;
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
          "): ranks start their collectives in different orders");
      timeline.events.insert(
          timeline.events.end(), state.events.begin(), state.events.end());
    }
    return timeline;
  }

 private:
  // Runs a rank as far as it gets.
  bool advance(int64_t rank) {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    const size_t before = state.next;
    while (state.next < state.block->instructions.size() && step(rank, state)) {
      ++state.next;
    }
    return state.next != before;
  }

  // False when the rank has to wait.
  bool step(int64_t rank, RankState& state) {
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
      if (!meeting.done) {
        return false;
      }
      state.now_seconds = std::max(state.now_seconds, meeting.end_seconds);
    }
    event.end_seconds = state.now_seconds;
    state.events.push_back(std::move(event));
    return true;
  }

  void begin(int64_t rank, RankState& state, const Start& start) {
    std::vector<int64_t> group = group_of(program_.mesh, start.axes, rank);
    const size_t number = state.started[group]++;
    Meeting& meeting = meetings_[{group, number}];
    if (meeting.ranks.empty()) {
      meeting.ranks = group;
      meeting.events.resize(group.size());
      const auto count = static_cast<int64_t>(group.size());
      meeting.cost_seconds = count == 1
                                 ? 0
                                 : all_reduce_seconds(
                                       count,
                                       transfer_bytes(*state.block, start),
                                       link_between(cluster_, group));
    }
    const auto member = std::find(group.begin(), group.end(), rank);
    meeting.events[static_cast<size_t>(member - group.begin())] =
        state.events.size();
    meeting.arrived += 1;
    meeting.ready_seconds = std::max(meeting.ready_seconds, state.now_seconds);
    state.queue.push_back(&meeting);
    for (const ValueId result : start.results) {
      state.meetings[result] = &meeting;
    }
  }

  // Lets every collective happen whose members are all ready for it.
  bool meet() {
    bool moved = false;
    for (auto& [key, meeting] : meetings_) {
      if (meeting.done || meeting.arrived < meeting.ranks.size()) {
        continue;
      }
      double start = meeting.ready_seconds;
      bool first = true;
      for (const int64_t rank : meeting.ranks) {
        const RankState& state = ranks_[static_cast<size_t>(rank)];
        first = first && state.queue.front() == &meeting;
        start = std::max(start, state.link_free_seconds);
      }
      if (!first) {
        continue;
      }
      meeting.done = true;
      meeting.end_seconds = start + meeting.cost_seconds;
      moved = true;
      for (size_t i = 0; i < meeting.ranks.size(); ++i) {
        RankState& state = ranks_[static_cast<size_t>(meeting.ranks[i])];
        state.queue.pop_front();
        state.link_free_seconds = meeting.end_seconds;
        state.events[meeting.events[i]].end_seconds = meeting.end_seconds;
      }
    }
    return moved;
  }

  const Program& program_;
  const Cluster& cluster_;
  std::map<const Block*, BlockCosts> costs_;
  std::vector<RankState> ranks_;
  // By group and number within it.
  std::map<std::pair<std::vector<int64_t>, size_t>, Meeting> meetings_;
};

}  // namespace

Timeline simulate(const Program& program, const Cluster& cluster) {
  WEFT_CHECK_USER(
      rank_count(program.mesh) <= device_count(cluster),
      "program @",
      program.name,
      " has ",
      rank_count(program.mesh),
      " rank(s), and cluster @",
      cluster.name,
      " ",
      device_count(cluster),
      " device(s)");
  return Simulation(program, cluster).run();
}

}  // namespace weft
