// SPDX-License-Identifier: Apache-2.0
#include "lower/play_stages.h"

#include "base/error.h"
#include "lower/emitter.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

namespace weft {
namespace {

class StagePlay {
 public:
  StagePlay(std::vector<Player> players, const Routes& routes)
      : players_(std::move(players)),
        routes_(routes),
        states_(players_.size()) {}

  // One block a player.
  std::vector<Block> run() {
    for (size_t w = 0; w < states_.size(); ++w) {
      begin(w);
    }
    for (size_t w = 0; w < states_.size(); ++w) {
      for (const Input& input : players_[w].block->function.inputs) {
        if (players_[w].items->home(input.value) == players_[w].position) {
          send(w, input.value);
        }
      }
    }
    while (take_next()) {
    }
    std::vector<Block> out;
    for (size_t w = 0; w < states_.size(); ++w) {
      finish_outputs(w);
    }
    for (State& state : states_) {
      wait_for_sends(state, [](const Taken&) { return true; });
      out.push_back(std::move(state.block));
    }
    return out;
  }

 private:
  static constexpr size_t kNobody = SIZE_MAX;

  // A value on its way from one player to another.
  struct Message {
    // In the receiver's block.
    ValueId value;
    // What is waited for at the sender.
    ValueId sent;
    double at = 0;
    // How many messages of all had been sent before.
    size_t number = 0;
  };
  // A send whose receive has been started: by whom, and how many messages had
  // been sent by then.
  struct Taken {
    ValueId sent;
    size_t by = 0;
    size_t number = 0;
  };

  struct State {
    Block block = {};
    NameTable names = {};
    // By value of the whole block: what it is here.
    std::vector<ValueId> now = {};
    // How many of its items are done from the front, and others ahead.
    size_t next = 0;
    std::set<size_t> done_ahead = {};
    double clock = 0;
    // Started receives whose wait has not been written yet, by value here: from
    // whom, and the number of the message.
    std::map<ValueId, std::pair<size_t, size_t>> pending = {};
    std::vector<Taken> taken = {};
    // By sender.
    std::map<size_t, std::deque<Message>> mail = {};
  };

  // An item of a player, by its place in the player's order.
  struct Turn {
    size_t player = 0;
    size_t number = 0;
  };

  const std::vector<size_t>& order(size_t w) const {
    return players_[w].items->at(players_[w].position);
  }
  const StagedItem& item(const Turn& turn) const {
    return players_[turn.player].items->item(order(turn.player)[turn.number]);
  }

  // --- Playing it through.

  void begin(size_t w) {
    State& state = states_[w];
    const Player& player = players_[w];
    const Function& function = player.block->function;
    state.block.first_rank = state.block.last_rank = player.rank;
    state.block.function.name = function.name;
    state.now.resize(function.values.size(), ValueId::None);
    state.names = NameTable(function);
    for (const Input& input : function.inputs) {
      const size_t home = player.items->home(input.value);
      if (home == player.position ||
          (home == kEverywhere &&
           player.items->is_read_at(input.value, player.position))) {
        const ValueId mine = add(w, input.value);
        state.block.function.inputs.push_back(input);
        state.block.function.inputs.back().value = mine;
      }
    }
  }

  ValueId add(size_t w, ValueId value) {
    State& state = states_[w];
    const Block& block = *players_[w].block;
    const Value& whole = block.function[value];
    return state.now[index(value)] = add_value(
               state.block,
               whole.name,
               whole.type,
               block.layouts[index(value)],
               block.parts[index(value)]);
  }

  void send(size_t w, ValueId value) {
    const auto found = routes_[w].find(value);
    if (found == routes_[w].end()) {
      return;
    }
    for (const Route& route : found->second) {
      const ValueId sent = emitter_of(w).start_send(
          sendable(w, value),
          players_[route.player].rank,
          players_[w].block->function[value].name);
      states_[route.player].mail[w].push_back(
          {route.value, sent, states_[w].clock, messages_++});
    }
  }

  Emitter emitter_of(size_t w) {
    State& state = states_[w];
    return {
        .block = state.block,
        .mesh = players_[w].staged->lowering.space,
        .rank = players_[w].rank,
        .phase = Phase::Forward,
        .names = state.names};
  }

  // Whether its storage becomes a sum while the value, a part of that, may
  // still be on its way.
  bool is_summed_later(const Block& block, ValueId value) {
    const auto [found, is_new] = summed_later_.try_emplace(&block);
    if (is_new) {
      const std::vector<ValueId> storage = storages(block);
      std::vector<size_t> made(storage.size(), 0);
      std::vector<size_t> summed(storage.size(), 0);
      for (size_t i = 0; i < block.instructions.size(); ++i) {
        for (const ValueId each : makes(block, block.instructions[i])) {
          made[index(each)] = i;
        }
        const auto* start = std::get_if<Start>(&block.instructions[i]);
        if (start != nullptr && start->kind == TransferKind::AllReduce) {
          for (const ValueId each : start->operands) {
            summed[index(storage[index(each)])] = i;
          }
        }
      }
      for (size_t i = 0; i < storage.size(); ++i) {
        found->second.push_back(summed[index(storage[i])] > made[i]);
      }
    }
    return found->second[index(value)];
  }

  // Without gaps and with memory that stays as it is, so that it can be sent.
  ValueId sendable(size_t w, ValueId value) {
    State& state = states_[w];
    const Block& block = *players_[w].block;
    ValueId mine = state.now[index(value)];
    if (is_dense(state.block.function[mine].type) &&
        !is_summed_later(block, value)) {
      return mine;
    }
    Emitter emitter = emitter_of(w);
    const TensorType type = like(state.block.function[mine].type);
    const int64_t part = state.block.parts[index(mine)];
    mine = emitter.call(
        "aten.clone",
        {{mine}},
        type,
        block.layouts[index(value)],
        block.function[value].name);
    state.block.parts[index(mine)] = part;
    return mine;
  }

  bool is_ready(const Turn& turn) const {
    const State& state = states_[turn.player];
    const std::vector<ValueId>& reads = item(turn).reads;
    return std::all_of(reads.begin(), reads.end(), [&](ValueId value) {
      return state.now[index(value)] != ValueId::None ||
             is_in_mail(state, value);
    });
  }

  static bool is_in_mail(const State& state, ValueId value) {
    return std::any_of(
        state.mail.begin(), state.mail.end(), [&](const auto& from) {
          return std::any_of(
              from.second.begin(), from.second.end(), [&](const Message& one) {
                return one.value == value;
              });
        });
  }

  // False when all is done.
  bool take_next() {
    std::vector<Turn> best;
    bool is_left = false;
    for (size_t w = 0; w < states_.size(); ++w) {
      State& state = states_[w];
      while (state.next < order(w).size() &&
             state.done_ahead.erase(state.next) > 0) {
        ++state.next;
      }
    }
    for (size_t w = 0; w < states_.size(); ++w) {
      const State& state = states_[w];
      if (state.next == order(w).size()) {
        continue;
      }
      is_left = true;
      if (best.empty() || state.clock < states_[best.front().player].clock) {
        std::vector<Turn> turns = turns_of({w, state.next}, false);
        if (!turns.empty()) {
          best = std::move(turns);
        }
      }
    }
    if (!is_left) {
      return false;
    }
    if (best.empty()) {
      best = turns_ahead();
    }
    for (const Turn& turn : best) {
      run(turn);
      states_[turn.player].done_ahead.insert(turn.number);
    }
    return true;
  }

  // The schedule cannot be kept: what can be done before its time.
  std::vector<Turn> turns_ahead() const {
    for (size_t w = 0; w < states_.size(); ++w) {
      for (size_t i = states_[w].next; i < order(w).size(); ++i) {
        std::vector<Turn> turns;
        if (!states_[w].done_ahead.contains(i)) {
          turns = turns_of({w, i}, true);
        }
        if (!turns.empty()) {
          return turns;
        }
      }
    }
    WEFT_CHECK(false, "stages wait for each other: ", waiting());
  }

  // What each player would do next, and does not have.
  std::string waiting() const {
    std::vector<std::string> all;
    for (size_t w = 0; w < states_.size(); ++w) {
      if (states_[w].next == order(w).size()) {
        continue;
      }
      const Block& block = *players_[w].block;
      const StagedItem& next = item({w, states_[w].next});
      std::vector<ValueId> missing = next.reads;
      std::erase_if(missing, [&](ValueId value) {
        return states_[w].now[index(value)] != ValueId::None ||
               is_in_mail(states_[w], value);
      });
      all.push_back(
          cat("rank ",
              players_[w].rank,
              " at ",
              label(block, next.instructions.front()),
              " without ",
              percent_names(block.function, missing)));
    }
    return join(all, "; ");
  }

  // The item, and for a collective those of all who meet there; nothing when
  // not all of them can do it now.
  std::vector<Turn> turns_of(const Turn& turn, bool is_ahead) const {
    if (!is_ready(turn)) {
      return {};
    }
    const Player& player = players_[turn.player];
    const Instruction& first = item(turn).instructions.front();
    const auto* start = std::get_if<Start>(&first);
    if (!player.team || start == nullptr || !is_collective(start->kind)) {
      // What ranks of a stage send each other keeps its order.
      const bool is_free =
          !is_ahead || !player.team || std::holds_alternative<Call>(first);
      return is_free ? std::vector<Turn>{turn} : std::vector<Turn>();
    }
    std::vector<Turn> turns;
    for (const int64_t rank :
         group_of(*player.team, start->axes, player.rank)) {
      const auto other = static_cast<size_t>(rank);
      const size_t number = is_ahead ? same_collective(other, turn)
                            : other == turn.player ? turn.number
                                                   : states_[other].next;
      if (number >= order(other).size() ||
          (other == turn.player && number != turn.number) ||
          !is_same_collective({other, number}, turn) ||
          !is_ready({other, number})) {
        return {};
      }
      turns.push_back({other, number});
    }
    return turns;
  }

  // For the same node and part. Names may differ where pieces do.
  bool is_same_collective(const Turn& a, const Turn& b) const {
    const auto* one = std::get_if<Start>(&item(a).instructions.front());
    const auto* other = std::get_if<Start>(&item(b).instructions.front());
    return one != nullptr && other != nullptr && one->kind == other->kind &&
           one->axes == other->axes &&
           item(a).origin.node == item(b).origin.node &&
           item(a).origin.part == item(b).origin.part;
  }

  // The first that is not done.
  size_t same_collective(size_t w, const Turn& turn) const {
    for (size_t i = states_[w].next; i < order(w).size(); ++i) {
      if (!states_[w].done_ahead.contains(i) &&
          is_same_collective({w, i}, turn)) {
        return i;
      }
    }
    return kNobody;
  }

  void run(const Turn& turn) {
    const size_t w = turn.player;
    State& state = states_[w];
    const Player& player = players_[w];
    const StagedItem& doing = item(turn);
    for (const ValueId value : doing.reads) {
      take_mail(w, value);
    }
    take_mail_so_far(w);
    for (const ValueId value : doing.reads) {
      wait_for(state, state.now[index(value)]);
    }
    for (const ValueId made : doing.makes) {
      add(w, made);
    }
    for (const Instruction& instruction : doing.instructions) {
      std::visit([&](const auto& one) { copy(w, one); }, instruction);
    }
    if (doing.origin.node != NodeId::None) {
      // Where all ranks of stages play, these may be more or fewer.
      const size_t ranks = player.team ? player.stage_ranks.size() : 1;
      state.clock +=
          static_cast<double>(player.staged->flops[index(doing.origin.node)]) /
          static_cast<double>(ranks);
    }
    if (player.items->position_of(doing) != kEverywhere) {
      for (const ValueId made : doing.makes) {
        send(w, made);
      }
    }
  }

  void copy(size_t w, const Wait& wait) {
    State& state = states_[w];
    state.block.instructions.emplace_back(Wait{state.now[index(wait.value)]});
  }
  void copy(size_t w, const Call& call) {
    State& state = states_[w];
    Node node = players_[w].block->function.nodes[index(call.node)];
    replace_operands(node, state.now);
    set_types(w, node, players_[w].block->function.nodes[index(call.node)]);
    for (ValueId& result : node.results) {
      result = state.now[index(result)];
    }
    state.block.instructions.emplace_back(
        Call{static_cast<NodeId>(state.block.function.nodes.size())});
    state.block.function.nodes.push_back(std::move(node));
  }
  // What was sent has lost its gaps, and so have its views.
  void set_types(size_t w, const Node& node, const Node& whole) {
    State& state = states_[w];
    Function& function = state.block.function;
    const std::vector<ValueId> before = operands(whole);
    const std::vector<ValueId> read = operands(node);
    bool is_same = true;
    for (size_t i = 0; i < read.size(); ++i) {
      is_same = is_same && function[read[i]].type ==
                               players_[w].block->function[before[i]].type;
    }
    if (is_same) {
      return;
    }
    const std::vector<TensorType> types = types_of(function, node);
    for (size_t i = 0; i < types.size() && i < node.results.size(); ++i) {
      function[state.now[index(node.results[i])]].type = types[i];
    }
  }
  void copy(size_t w, Start start) {
    State& state = states_[w];
    for (ValueId& operand : start.operands) {
      operand = state.now[index(operand)];
    }
    for (ValueId& result : start.results) {
      result = state.now[index(result)];
    }
    if (start.peer >= 0) {
      // Among the ranks of a stage.
      start.peer = players_[w].stage_ranks[static_cast<size_t>(start.peer)];
    }
    state.block.instructions.emplace_back(std::move(start));
  }
  void copy(size_t w, const Free& free) {
    State& state = states_[w];
    Free mine = free;
    for (ValueId& value : mine.values) {
      value = state.now[index(value)];
    }
    state.block.instructions.emplace_back(std::move(mine));
  }

  // Starts to receive the value, and what was sent before it.
  void take_mail(size_t w, ValueId value) {
    State& state = states_[w];
    if (state.now[index(value)] != ValueId::None) {
      return;
    }
    for (auto& [from, messages] : state.mail) {
      const auto found = std::find_if(
          messages.begin(), messages.end(), [&](const Message& one) {
            return one.value == value;
          });
      if (found == messages.end()) {
        continue;
      }
      state.clock = std::max(state.clock, found->at);
      const auto count = static_cast<size_t>(found - messages.begin()) + 1;
      for (size_t i = 0; i < count; ++i) {
        receive(w, from);
      }
      return;
    }
  }

  void take_mail_so_far(size_t w) {
    for (auto& [from, messages] : states_[w].mail) {
      while (!messages.empty() && messages.front().at <= states_[w].clock) {
        receive(w, from);
      }
    }
  }

  // The next message of the sender.
  void receive(size_t w, size_t from) {
    State& state = states_[w];
    const Message message = state.mail[from].front();
    state.mail[from].pop_front();
    const ValueId sent = message.sent;
    const ValueId mine = add(w, message.value);
    const Block& sender = states_[from].block;
    state.block.function[mine].type = sender.function[sent].type;
    emitter_of(w).start_receive(mine, players_[from].rank);
    state.pending[mine] = {from, message.number};
    states_[from].taken.push_back({sent, w, messages_});
  }

  static void wait_for(State& state, ValueId mine) {
    const auto found = state.pending.find(mine);
    if (found == state.pending.end()) {
      return;
    }
    const auto [from, number] = found->second;
    state.pending.erase(found);
    state.block.instructions.emplace_back(Wait{mine});
    wait_for_sends(state, [&](const Taken& one) {
      return one.by == from && one.number <= number;
    });
  }

  template <class Which>
  static void wait_for_sends(State& state, const Which& which) {
    std::erase_if(state.taken, [&](const Taken& one) {
      const bool is_meant = which(one);
      if (is_meant) {
        state.block.instructions.emplace_back(Wait{one.sent});
      }
      return is_meant;
    });
  }

  void finish_outputs(size_t w) {
    State& state = states_[w];
    const Player& player = players_[w];
    for (const Output& output : player.block->function.outputs) {
      const size_t home = player.items->home(output.value);
      if (home != player.position &&
          !(home == kEverywhere && player.position == 0) &&
          !player.items->is_known_to_all(output.value)) {
        continue;
      }
      take_mail(w, output.value);
      const ValueId mine = state.now[index(output.value)];
      wait_for(state, mine);
      state.block.function.outputs.push_back(output);
      state.block.function.outputs.back().value = mine;
    }
    for (auto& [from, messages] : state.mail) {
      WEFT_CHECK(
          messages.empty() || player.team,
          "something was sent that nobody reads");
      while (!messages.empty()) {
        receive(w, from);
      }
    }
    while (!state.pending.empty()) {
      wait_for(state, state.pending.begin()->first);
    }
  }

  const std::vector<Player> players_;
  const Routes& routes_;
  std::vector<State> states_;
  // By block and value.
  std::map<const Block*, std::vector<bool>> summed_later_;
  // How many messages have been sent.
  size_t messages_ = 0;
};

}  // namespace

std::vector<Block> play_stages(
    std::vector<Player> players, const Routes& routes) {
  return StagePlay(std::move(players), routes).run();
}

}  // namespace weft
