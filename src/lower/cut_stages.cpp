// SPDX-License-Identifier: Apache-2.0
// Each rank gets its stages' work, in the order of the plan's schedule.
//
// Before this pass a block has the work of all stages on all parts of the
// batch. Here its instructions are dealt out to the positions of the pipeline;
// what is made at one and read at another is sent as soon as it is made.
//
// The order is found by playing the step through, all positions side by side:
// each takes its next instruction when what it reads is there. A receive is
// started when the other side has sent, or when it is needed; a send is waited
// for when something has come back that was sent after its receive was started,
// which costs no time, or at the end. So every rank's order is a part of one
// order of all of them, and none can wait for ever. Where a part needs
// something of all parts (a batch norm over the whole batch), the schedule
// cannot be kept, and whatever can go on does.
#include "base/error.h"
#include "lower/emitter.h"
#include "lower/pass.h"
#include "lower/staged_items.h"
#include "lower/staged_step.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

namespace weft {
namespace {

// One rank of the stages' mesh, at all positions of the pipeline.
class PipelineStep {
 public:
  PipelineStep(
      const StagedStep& staged,
      const Block& block,
      const std::vector<Origin>& origins,
      int64_t rank)
      : staged_(staged),
        block_(block),
        rank_(rank),
        items_(staged, block, origins),
        positions_(staged.order.size()) {}

  // One block a position.
  std::vector<Block> build() {
    for (size_t p = 0; p < positions_.size(); ++p) {
      begin(p);
    }
    for (size_t p = 0; p < positions_.size(); ++p) {
      send_inputs(p);
    }
    while (take_next()) {
    }
    std::vector<Block> out;
    for (size_t p = 0; p < positions_.size(); ++p) {
      finish_outputs(p);
    }
    for (Position& position : positions_) {
      wait_for_sends(position, [](const Taken&) { return true; });
      out.push_back(std::move(position.block));
    }
    return out;
  }

 private:
  static constexpr size_t kNobody = SIZE_MAX;

  // A value on its way from one position to another.
  struct Message {
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

  struct Position {
    Block block = {};
    int64_t rank = 0;
    std::unordered_set<std::string> names = {};
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

  // --- Playing it through.

  void begin(size_t p) {
    Position& position = positions_[p];
    const Mesh& mesh = staged_.lowering.plan.mesh;
    position.rank = rank_of(mesh, rank_, p);
    position.block.first_rank = position.block.last_rank = position.rank;
    position.block.function.name = block_.function.name;
    position.now.resize(block_.function.values.size(), ValueId::None);
    for (const Value& value : block_.function.values) {
      position.names.insert(value.name);
    }
    for (const Input& input : block_.function.inputs) {
      const size_t home = items_.home(input.value);
      if (home == p ||
          (home == kEverywhere && items_.is_read_at(input.value, p))) {
        const ValueId mine = add(p, input.value);
        position.block.function.inputs.push_back(input);
        position.block.function.inputs.back().value = mine;
      }
    }
  }

  ValueId add(size_t p, ValueId value) {
    Position& position = positions_[p];
    const Value& whole = block_.function[value];
    return position.now[index(value)] = add_value(
               position.block,
               whole.name,
               whole.type,
               block_.layouts[index(value)],
               block_.parts[index(value)]);
  }

  void send_inputs(size_t p) {
    for (const Input& input : block_.function.inputs) {
      if (items_.home(input.value) == p) {
        send(p, input.value);
      }
    }
  }

  // To every other position that reads the value.
  void send(size_t p, ValueId value) {
    const Position& position = positions_[p];
    for (size_t other = 0; other < positions_.size(); ++other) {
      if (other == p || !items_.is_read_at(value, other)) {
        continue;
      }
      const ValueId sent = emitter_at(p).start_send(
          dense(p, value), positions_[other].rank, block_.function[value].name);
      positions_[other].mail[p].push_back(
          {value, sent, position.clock, messages_++});
    }
  }

  Emitter emitter_at(size_t p) {
    Position& position = positions_[p];
    return {
        .block = position.block,
        .mesh = staged_.lowering.plan.mesh,
        .rank = position.rank,
        .phase = Phase::Forward,
        .names = position.names};
  }

  // Without gaps, so that it can be sent.
  ValueId dense(size_t p, ValueId value) {
    Position& position = positions_[p];
    ValueId mine = position.now[index(value)];
    if (is_dense(position.block.function[mine].type)) {
      return mine;
    }
    Emitter emitter = emitter_at(p);
    const TensorType type = like(position.block.function[mine].type);
    const int64_t part = position.block.parts[index(mine)];
    mine = emitter.call(
        "aten.clone",
        {{mine}},
        type,
        block_.layouts[index(value)],
        block_.function[value].name);
    position.block.parts[index(mine)] = part;
    return mine;
  }

  bool is_ready(size_t p, const Item& item) const {
    const Position& position = positions_[p];
    return std::all_of(
        item.reads.begin(), item.reads.end(), [&](ValueId value) {
          return position.now[index(value)] != ValueId::None ||
                 is_in_mail(position, value);
        });
  }

  static bool is_in_mail(const Position& position, ValueId value) {
    return std::any_of(
        position.mail.begin(), position.mail.end(), [&](const auto& from) {
          return std::any_of(
              from.second.begin(), from.second.end(), [&](const Message& one) {
                return one.value == value;
              });
        });
  }

  // False when all is done.
  bool take_next() {
    size_t best = kNobody;
    bool is_left = false;
    for (size_t p = 0; p < positions_.size(); ++p) {
      Position& position = positions_[p];
      const size_t count = items_.at(p).size();
      while (position.next < count &&
             position.done_ahead.erase(position.next) > 0) {
        ++position.next;
      }
      if (position.next == count) {
        continue;
      }
      is_left = true;
      if ((best == kNobody || position.clock < positions_[best].clock) &&
          is_ready(p, items_.item(items_.at(p)[position.next]))) {
        best = p;
      }
    }
    if (!is_left) {
      return false;
    }
    if (best != kNobody) {
      run(best, positions_[best].next);
      ++positions_[best].next;
      return true;
    }
    // The schedule cannot be kept.
    for (size_t p = 0; p < positions_.size(); ++p) {
      Position& position = positions_[p];
      for (size_t i = position.next; i < items_.at(p).size(); ++i) {
        if (!position.done_ahead.contains(i) &&
            is_ready(p, items_.item(items_.at(p)[i]))) {
          run(p, i);
          position.done_ahead.insert(i);
          return true;
        }
      }
    }
    WEFT_CHECK(false, "stages wait for each other");
  }

  void run(size_t p, size_t number) {
    Position& position = positions_[p];
    const Item& item = items_.item(items_.at(p)[number]);
    for (const ValueId value : item.reads) {
      take_mail(p, value);
    }
    take_mail_so_far(p);
    for (const ValueId value : item.reads) {
      wait_for(position, position.now[index(value)]);
    }
    for (const ValueId made : item.makes) {
      add(p, made);
    }
    for (const Instruction& instruction : item.instructions) {
      std::visit([&](const auto& one) { copy(position, one); }, instruction);
    }
    if (item.origin.node != NodeId::None) {
      position.clock +=
          static_cast<double>(staged_.flops[index(item.origin.node)]);
    }
    if (items_.position_of(item) != kEverywhere) {
      for (const ValueId made : item.makes) {
        send(p, made);
      }
    }
  }

  static void copy(Position& position, const Wait& wait) {
    position.block.instructions.emplace_back(
        Wait{position.now[index(wait.value)]});
  }
  void copy(Position& position, const Call& call) const {
    Node node = block_.function.nodes[index(call.node)];
    replace_operands(node, position.now);
    set_types(position, node);
    for (ValueId& result : node.results) {
      result = position.now[index(result)];
    }
    position.block.instructions.emplace_back(
        Call{static_cast<NodeId>(position.block.function.nodes.size())});
    position.block.function.nodes.push_back(std::move(node));
  }
  // What was sent has lost its gaps, and so have its views.
  void set_types(Position& position, const Node& node) const {
    Function& function = position.block.function;
    const std::vector<ValueId> before =
        operands(block_.function
                     .nodes[index(block_.function[node.results.front()].node)]);
    const std::vector<ValueId> read = operands(node);
    bool is_same = true;
    for (size_t i = 0; i < read.size(); ++i) {
      is_same =
          is_same && function[read[i]].type == block_.function[before[i]].type;
    }
    const OpDef* def = find_op(node.op);
    if (is_same || def == nullptr || def->types == nullptr) {
      return;
    }
    Node bare = node;
    bare.results.clear();
    const std::vector<TensorType> types = def->types(function, bare);
    for (size_t i = 0; i < types.size() && i < node.results.size(); ++i) {
      function[position.now[index(node.results[i])]].type = types[i];
    }
  }
  void copy(Position& position, Start start) const {
    for (ValueId& operand : start.operands) {
      operand = position.now[index(operand)];
    }
    for (ValueId& result : start.results) {
      result = position.now[index(result)];
    }
    if (start.peer >= 0) {
      // Among the ranks of a stage.
      start.peer = peer_at(position, start.peer);
    }
    position.block.instructions.emplace_back(std::move(start));
  }
  static void copy(Position& position, const Free& free) {
    Free mine = free;
    for (ValueId& value : mine.values) {
      value = position.now[index(value)];
    }
    position.block.instructions.emplace_back(std::move(mine));
  }

  // A rank of the stages' mesh, at the same position.
  int64_t peer_at(const Position& position, int64_t peer) const {
    const Mesh& mesh = staged_.lowering.plan.mesh;
    const int axis = find_axis(mesh, std::string(kPipelineAxis));
    const int64_t p =
        axis < 0 ? 0
                 : coordinates(mesh, position.rank)[static_cast<size_t>(axis)];
    return rank_of(mesh, peer, static_cast<size_t>(p));
  }

  // The rank at the coordinates of one of a stage's, at position `p` of the
  // pipeline.
  static int64_t rank_of(const Mesh& mesh, int64_t stage_rank, size_t p) {
    const std::vector<int64_t> where =
        coordinates(stage_mesh(mesh), stage_rank);
    int64_t rank = 0;
    size_t next = 0;
    for (const Axis& axis : mesh.axes) {
      const int64_t here =
          axis.name == kPipelineAxis ? static_cast<int64_t>(p) : where[next++];
      rank = rank * axis.size + here;
    }
    return rank;
  }

  // Starts to receive the value, and what was sent before it.
  void take_mail(size_t p, ValueId value) {
    if (positions_[p].now[index(value)] != ValueId::None) {
      return;
    }
    for (auto& [from, messages] : positions_[p].mail) {
      const auto found = std::find_if(
          messages.begin(), messages.end(), [&](const Message& one) {
            return one.value == value;
          });
      if (found == messages.end()) {
        continue;
      }
      positions_[p].clock = std::max(positions_[p].clock, found->at);
      const auto count = static_cast<size_t>(found - messages.begin()) + 1;
      for (size_t i = 0; i < count; ++i) {
        receive(p, from);
      }
      return;
    }
  }

  void take_mail_so_far(size_t p) {
    for (auto& [from, messages] : positions_[p].mail) {
      while (!messages.empty() && messages.front().at <= positions_[p].clock) {
        receive(p, from);
      }
    }
  }

  // The next message of the sender.
  void receive(size_t p, size_t from) {
    Position& position = positions_[p];
    const Message message = position.mail[from].front();
    position.mail[from].pop_front();
    const ValueId sent = message.sent;
    const ValueId mine = add(p, message.value);
    const Block& sender = positions_[from].block;
    position.block.function[mine].type = sender.function[sent].type;
    emitter_at(p).start_receive(mine, positions_[from].rank);
    position.pending[mine] = {from, message.number};
    positions_[from].taken.push_back({sent, p, messages_});
  }

  static void wait_for(Position& position, ValueId mine) {
    const auto found = position.pending.find(mine);
    if (found == position.pending.end()) {
      return;
    }
    const auto [from, number] = found->second;
    position.pending.erase(found);
    position.block.instructions.emplace_back(Wait{mine});
    wait_for_sends(position, [&](const Taken& one) {
      return one.by == from && one.number <= number;
    });
  }

  template <class Which>
  static void wait_for_sends(Position& position, const Which& which) {
    std::erase_if(position.taken, [&](const Taken& one) {
      const bool is_meant = which(one);
      if (is_meant) {
        position.block.instructions.emplace_back(Wait{one.sent});
      }
      return is_meant;
    });
  }

  void finish_outputs(size_t p) {
    Position& position = positions_[p];
    for (const Output& output : block_.function.outputs) {
      const size_t home = items_.home(output.value);
      if (home != p && !(home == kEverywhere && p == 0) &&
          !items_.is_known_to_all(output.value)) {
        continue;
      }
      take_mail(p, output.value);
      const ValueId mine = position.now[index(output.value)];
      wait_for(position, mine);
      position.block.function.outputs.push_back(output);
      position.block.function.outputs.back().value = mine;
    }
    for (auto& [from, messages] : position.mail) {
      WEFT_CHECK(messages.empty(), "something was sent that nobody reads");
    }
  }

  const StagedStep& staged_;
  const Block& block_;
  const int64_t rank_;
  const StagedItems items_;
  std::vector<Position> positions_;
  // How many messages have been sent.
  size_t messages_ = 0;
};

}  // namespace

void cut_stages(Lowering& lowering) {
  if (rank_count(lowering.plan.mesh) == rank_count(lowering.program.mesh) &&
      rank_count(lowering.plan.time) == 1) {
    lowering.program.mesh = lowering.plan.mesh;
    lowering.program.time = lowering.plan.time;
    lowering.origins.clear();
    return;
  }
  const StagedStep staged(lowering);
  std::vector<Block> blocks;
  for (size_t i = 0; i < lowering.program.blocks.size(); ++i) {
    const Block& block = lowering.program.blocks[i];
    for (int64_t rank = block.first_rank; rank <= block.last_rank; ++rank) {
      for (Block& one :
           PipelineStep(staged, block, lowering.origins[i], rank).build()) {
        blocks.push_back(std::move(one));
      }
    }
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.first_rank < b.first_rank;
  });
  Program program;
  program.name = lowering.program.name;
  program.mesh = lowering.plan.mesh;
  program.time = lowering.plan.time;
  program.constants = lowering.program.constants;
  lowering.origins.clear();
  for (Block& block : blocks) {
    block.function.name = step_of(lowering.graph).name;
    add_block(program, lowering.origins, std::move(block), {});
  }
  name_blocks(program);
  lowering.program = std::move(program);
}

}  // namespace weft
