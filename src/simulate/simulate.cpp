// SPDX-License-Identifier: Apache-2.0
// Every class of ranks has a clock for its calls. A transfer happens when all
// its members have started it and the wires of each are free: a collective
// takes both directions, a send one of either side, a copy the way to the host.
// Whatever can happen first happens first, on whichever rank: so no transfer
// takes a wire before one that is ready sooner. Where transfers take a share of
// their devices (Link::device_share), a call that is under way ends later by
// that; who waits has nothing to lose.
#include "simulate/simulate.h"

#include "base/error.h"
#include "simulate/rank_classes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace weft {
namespace {

// Between which classes transfers keep their order: those of a group over some
// axes, those of {from, to} at some distance, or one and its host.
struct Lane {
  std::string axes;
  int64_t offset = 0;
  std::vector<size_t> classes;
  auto operator<=>(const Lane&) const = default;

  bool is_group() const { return !axes.empty(); }
  bool is_host() const { return axes.empty() && classes.size() == 1; }
};

// One transfer.
struct Meeting {
  const Lane* lane = nullptr;
  double cost_seconds = 0;
  // Of its time, what its members' devices lose.
  double device_share = 0;
  size_t arrived = 0;
  // When the last member started it.
  double ready_seconds = 0;
  // Which action of which class.
  std::vector<std::pair<size_t, size_t>> members;
  bool done = false;
  double begin_seconds = 0;
  double end_seconds = 0;
};

struct Span {
  double start_seconds = 0;
  double end_seconds = 0;
};

struct ClassState {
  const RankClass* ranks = nullptr;
  const Device* device = nullptr;
  HostClock host;
  size_t next = 0;
  double now_seconds = 0;
  // Whether its device computes until now_seconds, or is idle.
  bool is_busy = false;
  // A transfer takes its share of the device until then.
  double taken_until_seconds = 0;
  double taken_share = 0;
  // When its wires are free again.
  double out_free_seconds = 0;
  double in_free_seconds = 0;
  double host_free_seconds = 0;
  // By the action that started it.
  std::map<size_t, Meeting*> meetings;
  // How many transfers it has started in each lane; for sends and receives
  // apart, for a class may send to itself.
  std::map<std::pair<const Lane*, bool>, size_t> started;
  std::vector<Span> spans;
  TimeShares times;
};

class Simulation {
 public:
  Simulation(const Program& program, const Cluster& cluster)
      : program_(program),
        cluster_(cluster),
        classes_(rank_classes(program, cluster)) {
    for (const RankClass& each : classes_.classes) {
      ClassState state;
      state.ranks = &each;
      state.device = &device_of(cluster, each.ranks.front());
      state.spans.resize(each.actions.size());
      states_.push_back(std::move(state));
    }
  }

  void run() {
    for (size_t number = 0; number < states_.size(); ++number) {
      let_go_on(number);
    }
    while (!ready_.empty() || !going_.empty()) {
      const auto first = first_meeting();
      if (first != ready_.end() &&
          (going_.empty() || start_seconds(**first) <= going_.begin()->first)) {
        meet(first);
        continue;
      }
      const size_t number = going_.begin()->second;
      going_.erase(going_.begin());
      ClassState& state = states_[number];
      step(number, state);
      ++state.next;
      let_go_on(number);
    }
    for (const ClassState& state : states_) {
      check_done(state);
    }
  }

  Timeline timeline() const {
    Timeline timeline;
    timeline.program = program_.name;
    for (size_t rank = 0; rank < classes_.of_rank.size(); ++rank) {
      const ClassState& state = states_[classes_.of_rank[rank]];
      const Block& block = block_of(program_, static_cast<int64_t>(rank));
      for (size_t i = 0; i < state.spans.size(); ++i) {
        Event event;
        event.rank = static_cast<int64_t>(rank);
        event.instruction = static_cast<int64_t>(i);
        event.start_seconds = state.spans[i].start_seconds;
        event.end_seconds = state.spans[i].end_seconds;
        const Action& action = state.ranks->actions[i];
        event.stream = action.kind == Action::Kind::Start
                           ? Stream::Communication
                           : Stream::Compute;
        event.live_bytes = action.live_bytes;
        event.label = label(block, block.instructions[i]);
        timeline.events.push_back(std::move(event));
      }
    }
    return timeline;
  }

  StepSummary summary() const {
    StepSummary summary;
    summary.classes = static_cast<int64_t>(states_.size());
    for (const ClassState& state : states_) {
      for (const Span& span : state.spans) {
        summary.step_seconds = std::max(summary.step_seconds, span.end_seconds);
      }
      add_peak(state, summary);
    }
    TimeShares& all = summary.times;
    const auto ranks = static_cast<double>(classes_.of_rank.size());
    for (const ClassState& state : states_) {
      const double weight =
          static_cast<double>(state.ranks->ranks.size()) / ranks;
      all.compute_seconds += weight * state.times.compute_seconds;
      all.recompute_seconds += weight * state.times.recompute_seconds;
      all.communication_seconds += weight * state.times.communication_seconds;
      all.host_seconds += weight * state.times.host_seconds;
      all.bubble_seconds += weight * (state.times.bubble_seconds +
                                      summary.step_seconds - state.now_seconds);
    }
    return summary;
  }

 private:
  void check_done(const ClassState& state) const {
    const int64_t rank = state.ranks->ranks.front();
    const Block& block = block_of(program_, rank);
    WEFT_CHECK_USER(
        state.next == block.instructions.size(),
        "program @",
        program_.name,
        ": rank ",
        rank,
        " waits for ever at instruction ",
        state.next,
        " (",
        label(block, block.instructions[state.next]),
        "): another rank never starts its part");
  }

  void add_peak(const ClassState& state, StepSummary& summary) const {
    const std::vector<Action>& actions = state.ranks->actions;
    for (size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].live_bytes > summary.peak_bytes) {
        summary.peak_bytes = actions[i].live_bytes;
        summary.peak_rank = state.ranks->ranks.front();
        const Block& block = block_of(program_, summary.peak_rank);
        summary.peak_label = label(block, block.instructions[i]);
      }
    }
  }

  // Unless it is done, or has to wait.
  void let_go_on(size_t number) {
    const ClassState& state = states_[number];
    if (state.next == state.ranks->actions.size()) {
      return;
    }
    const Action& action = state.ranks->actions[state.next];
    if (action.kind != Action::Kind::Wait ||
        state.meetings.at(action.start)->done) {
      going_.insert({state.now_seconds, number});
    }
  }

  // Its next instruction.
  void step(size_t number, ClassState& state) {
    const Action& action = state.ranks->actions[state.next];
    Span& span = state.spans[state.next];
    span.start_seconds = state.now_seconds;
    switch (action.kind) {
      case Action::Kind::Call:
        issue(state, span);
        share_device(state);
        state.now_seconds += action.seconds;
        state.is_busy = true;
        (action.is_recompute ? state.times.recompute_seconds
                             : state.times.compute_seconds) += action.seconds;
        state.host.ends_at(*state.device, state.now_seconds);
        break;
      case Action::Kind::Start:
        issue(state, span);
        begin(number, state, action);
        state.host.ends_at(*state.device, state.now_seconds);
        break;
      case Action::Kind::Wait:
        if (wait_for(*state.meetings.at(action.start), state)) {
          state.is_busy = false;
        }
        break;
      case Action::Kind::Free:
        break;
    }
    span.end_seconds = std::max(span.end_seconds, state.now_seconds);
  }

  // The device waits for its host.
  static void issue(ClassState& state, Span& span) {
    const double issued = state.host.issue(*state.device);
    if (issued > state.now_seconds) {
      state.times.host_seconds += issued - state.now_seconds;
      state.now_seconds = issued;
    }
    span.start_seconds = state.now_seconds;
  }

  // What is left of a transfer that began while the device was idle.
  static void share_device(ClassState& state) {
    if (state.taken_until_seconds > state.now_seconds) {
      delay(
          state,
          state.taken_share * (state.taken_until_seconds - state.now_seconds));
    }
    state.taken_until_seconds = 0;
  }

  static void delay(ClassState& state, double seconds) {
    state.now_seconds += seconds;
    state.times.communication_seconds += seconds;
  }

  // Whether there was something to wait for.
  static bool wait_for(const Meeting& meeting, ClassState& state) {
    if (meeting.end_seconds <= state.now_seconds) {
      return false;
    }
    const double moves = meeting.end_seconds -
                         std::max(state.now_seconds, meeting.begin_seconds);
    state.times.communication_seconds += moves;
    state.times.bubble_seconds +=
        meeting.end_seconds - state.now_seconds - moves;
    state.now_seconds = meeting.end_seconds;
    return true;
  }

  const Lane* lane_of(size_t number, const Action& action) {
    const int64_t rank = states_[number].ranks->ranks.front();
    Lane lane;
    if (is_collective(action.transfer)) {
      lane.axes = action.axes;
      std::set<size_t> classes;
      for (const int64_t other : group(action.axes, rank)) {
        classes.insert(classes_.of_rank[static_cast<size_t>(other)]);
      }
      lane.classes.assign(classes.begin(), classes.end());
    } else if (action.transfer == TransferKind::Copy) {
      lane.classes = {number};
    } else {
      const size_t other =
          classes_.of_rank[static_cast<size_t>(rank + action.peer_offset)];
      const bool sends = action.transfer == TransferKind::Send;
      lane.offset = sends ? action.peer_offset : -action.peer_offset;
      lane.classes = sends ? std::vector<size_t>{number, other}
                           : std::vector<size_t>{other, number};
    }
    return &*lanes_.insert(std::move(lane)).first;
  }

  const std::vector<int64_t>& group(const std::string& axes, int64_t rank) {
    const auto [found, is_new] = groups_.try_emplace(axes);
    if (is_new) {
      found->second = groups_by_rank(program_, axes);
    }
    return found->second[static_cast<size_t>(rank)];
  }

  void set_cost(size_t number, const Action& action, Meeting& meeting) {
    if (action.transfer == TransferKind::Copy) {
      meeting.cost_seconds = copy_seconds(action.bytes, cluster_);
      const MemoryTier* host = find_tier(cluster_, "host");
      meeting.device_share = host == nullptr ? 0 : host->link.device_share;
      return;
    }
    const int64_t rank = states_[number].ranks->ranks.front();
    const std::vector<int64_t> ranks =
        is_collective(action.transfer)
            ? group(action.axes, rank)
            : std::vector<int64_t>{rank, rank + action.peer_offset};
    if (ranks.size() == 1) {
      return;
    }
    const Link link = link_between(cluster_, ranks);
    meeting.cost_seconds = transfer_seconds(
        action.transfer,
        static_cast<int64_t>(ranks.size()),
        action.bytes,
        link);
    meeting.device_share = link.device_share;
  }

  void begin(size_t number, ClassState& state, const Action& action) {
    const Lane* lane = lane_of(number, action);
    const size_t count =
        state.started[{lane, action.transfer == TransferKind::Receive}]++;
    Meeting& meeting = meetings_[{lane, count}];
    if (meeting.lane == nullptr) {
      meeting.lane = lane;
      set_cost(number, action, meeting);
    }
    meeting.members.emplace_back(number, state.next);
    meeting.arrived += 1;
    meeting.ready_seconds = std::max(meeting.ready_seconds, state.now_seconds);
    if (meeting.arrived == lane->classes.size()) {
      ready_.push_back(&meeting);
    }
    state.meetings[state.next] = &meeting;
  }

  // What the transfer occupies.
  std::vector<double*> wires(const Meeting& meeting) {
    std::vector<double*> out;
    const std::vector<size_t>& classes = meeting.lane->classes;
    for (size_t i = 0; i < classes.size(); ++i) {
      ClassState& state = states_[classes[i]];
      if (meeting.lane->is_host()) {
        out.push_back(&state.host_free_seconds);
        continue;
      }
      if (meeting.lane->is_group() || i == 0) {
        out.push_back(&state.out_free_seconds);
      }
      if (meeting.lane->is_group() || i == 1) {
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
    meeting.begin_seconds = start_seconds(meeting);
    meeting.end_seconds = meeting.begin_seconds + meeting.cost_seconds;
    for (double* free : wires(meeting)) {
      *free = meeting.end_seconds;
    }
    if (meeting.device_share > 0 && meeting.cost_seconds > 0) {
      for (const size_t number : meeting.lane->classes) {
        take_device(number, meeting);
      }
    }
    for (const auto& [number, action] : meeting.members) {
      states_[number].spans[action].end_seconds = meeting.end_seconds;
      let_go_on(number);
    }
  }

  // Nothing that can go on is before the meeting's begin.
  void take_device(size_t number, const Meeting& meeting) {
    ClassState& state = states_[number];
    const auto going = going_.find({state.now_seconds, number});
    if (going == going_.end() || !state.is_busy) {
      state.taken_until_seconds = meeting.end_seconds;
      state.taken_share = meeting.device_share;
      return;
    }
    delay(state, meeting.device_share * meeting.cost_seconds);
    going_.erase(going);
    going_.insert({state.now_seconds, number});
    const size_t last = state.next - 1;
    if (state.ranks->actions[last].kind == Action::Kind::Call) {
      state.spans[last].end_seconds = state.now_seconds;
    }
  }

  const Program& program_;
  const Cluster& cluster_;
  const RankClasses classes_;
  std::vector<ClassState> states_;
  std::set<Lane> lanes_;
  std::map<std::string, std::vector<std::vector<int64_t>>> groups_;
  // By lane and number within it.
  std::map<std::pair<const Lane*, size_t>, Meeting> meetings_;
  // Those that all members have started and that have not happened, in the
  // order in which they came to be so.
  std::vector<Meeting*> ready_;
  // Classes that can go on, and their clocks.
  std::set<std::pair<double, size_t>> going_;
};

void check_ranks(const Program& program, const Cluster& cluster) {
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
}

}  // namespace

Timeline simulate(const Program& program, const Cluster& cluster) {
  check_ranks(program, cluster);
  Simulation simulation(program, cluster);
  simulation.run();
  return simulation.timeline();
}

StepSummary summarize(const Program& program, const Cluster& cluster) {
  check_ranks(program, cluster);
  Simulation simulation(program, cluster);
  simulation.run();
  return simulation.summary();
}

}  // namespace weft
