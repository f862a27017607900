// SPDX-License-Identifier: Apache-2.0
// Points of time become parts of one rank's work.
//
// Sharding gave every point of the axes of time a block, as if it were a rank.
// Here the blocks of one rank become one. What does not depend on an axis of
// time is done once for all its points. What travelled between points is at
// hand: sums are added up part by part, pieces are joined or cut by calls, and
// what one point sent to another (keys and values of earlier slices) is read
// where it lies.
#include "base/error.h"
#include "lower/folded_block.h"
#include "lower/meet.h"
#include "lower/pass.h"
#include "lower/time_layout.h"
#include "ops/kernel.h"
#include "ops/strided.h"
#include "plan/plan.h"
#include "plan/schedule.h"
#include "program/piece.h"
#include "program/transfer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

namespace weft {
namespace {

class TimeFold {
 public:
  // `in_backward`: by point of time, its place in the order of backward.
  TimeFold(
      const Lowering& lowering,
      int64_t rank,
      const std::vector<size_t>& in_backward)
      : lowering_(lowering),
        time_(lowering.plan.time),
        rank_(rank),
        in_backward_(in_backward),
        folded_(lowering, rank) {
    for (int64_t part = 0; part < rank_count(time_); ++part) {
      const int64_t place = place_on(time_, rank, part);
      const auto& blocks = lowering.program.blocks;
      const auto found =
          std::find_if(blocks.begin(), blocks.end(), [&](const Block& one) {
            return one.first_rank <= place && place <= one.last_rank;
          });
      WEFT_CHECK(found != blocks.end(), "no block for place ", place);
      parts_.push_back(
          {.block = &*found,
           .origins =
               &lowering.origins[static_cast<size_t>(found - blocks.begin())],
           .now = std::vector<ValueId>(
               found->function.values.size(), ValueId::None)});
    }
  }

  Block build() {
    const Function& first = parts_.front().block->function;
    for (size_t i = 0; i < first.inputs.size(); ++i) {
      add_input(i);
    }
    while (true) {
      advance_all();
      if (parts_.front().next == nullptr) {
        break;
      }
      join_parts();
    }
    for (const Output& output : first.outputs) {
      // What does not lie in parts is the same at every point, though each may
      // have made its own of what it has (a count of steps beside a piece).
      const Layout& layout = parts_.front().block->layouts[index(output.value)];
      const ValueId value = parts_.front().now[index(output.value)];
      WEFT_CHECK(
          folded_.bits(axes_of(layout)) == 0,
          "%",
          block_.function[value].name,
          " is returned in parts");
      block_.function.outputs.push_back(output);
      block_.function.outputs.back().value = value;
    }
    return std::move(block_);
  }

  std::vector<Origin> origins() { return std::move(folded_.origins); }

 private:
  // The block of one point of time, and how far it has been read.
  struct Part {
    const Block* block;
    const std::vector<Origin>* origins;
    // By value of the block: what it is here.
    std::vector<ValueId> now;
    size_t at = 0;
    // The transfer over time that it has come to; nullptr at the end.
    const Start* next = nullptr;
    // How many instructions of other points it has shared, by their axes.
    std::map<TimeAxes, size_t> shared = {};
    // By what it receives from another point: that one, and which of the
    // things sent from there to here it is.
    std::map<ValueId, std::pair<size_t, size_t>> expected = {};
    // By the other point, how many of these there were.
    std::map<size_t, size_t> received = {};
  };

  // --- Inputs.

  void add_input(size_t number) {
    const Block& first = *parts_.front().block;
    const Input& input = first.function.inputs[number];
    const Value& value = first.function[input.value];
    const Layout& layout = first.layouts[index(input.value)];
    const TimeAxes axes = folded_.bits(axes_of(layout));
    TensorType type = value.type;
    Layout whole_layout = layout;
    if (axes != 0) {
      const TensorType whole =
          make_type(type.dtype, whole_sizes(type, layout, lowering_.mesh));
      whole_layout = without_time(layout, whole, lowering_.mesh, time_);
      type = local_type(whole, whole_layout, folded_.space, rank_);
    }
    const ValueId whole = folded_.add(value.name, type, whole_layout, 0, 0);
    block_.function.inputs.push_back(input);
    block_.function.inputs.back().value = whole;
    for (size_t t = 0; t < parts_.size(); ++t) {
      const size_t alike = folded_.first_alike(t, axes);
      const ValueId theirs = parts_[t].block->function.inputs[number].value;
      parts_[t].now[index(theirs)] =
          axes == 0   ? whole
          : alike < t ? parts_[alike].now[index(
                            parts_[alike].block->function.inputs[number].value)]
                      : cut_input(whole, theirs, t, axes);
    }
  }

  // Where a part begins in what a rank has of a dim, one range after the other;
  // none where it is no stretch of one of them.
  static std::optional<int64_t> place_of(
      const std::vector<Piece>& mine, const std::vector<Piece>& part) {
    int64_t before = 0;
    for (const Piece& range : mine) {
      if (part.size() == 1 && part.front().start >= range.start &&
          part.front().start + part.front().size <= range.start + range.size) {
        return before + part.front().start - range.start;
      }
      before += range.size;
    }
    return std::nullopt;
  }

  // The part of an input that one point of time reads.
  ValueId cut_input(ValueId whole, ValueId theirs, size_t t, TimeAxes axes) {
    const Block& block = *parts_[t].block;
    const TensorType& type = block.function[theirs].type;
    const Layout& layout = block.layouts[index(theirs)];
    const Dims sizes = whole_sizes(type, layout, lowering_.mesh);
    const std::string name = block_.function[whole].name;
    ValueId value = whole;
    folded_.emitter.phase = Phase::Forward;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (folded_.bits(axes_of(layout.dims[dim])) == 0) {
        continue;
      }
      const std::vector<Piece> mine = ranges_of(
          folded_.space,
          block_.layouts[index(whole)].dims[dim],
          sizes[dim],
          rank_);
      const std::vector<Piece> part = ranges_of(
          lowering_.mesh,
          layout.dims[dim],
          sizes[dim],
          place_on(time_, rank_, static_cast<int64_t>(t)));
      const std::optional<int64_t> start = place_of(mine, part);
      WEFT_CHECK_USER(
          start,
          "%",
          name,
          " ",
          print(layout),
          ": parts in time are stretches of what a rank has; put axes of time "
          "first or last");
      TensorType cut = block_.function[value].type;
      Dims cut_sizes = cut.sizes;
      cut_sizes[dim] = part.front().size;
      cut = make_type(cut.dtype, std::move(cut_sizes), strides_of(cut));
      value = folded_.made(
          folded_.emitter.call(
              "aten.slice.Tensor",
              {{value},
               {static_cast<int64_t>(dim)},
               {*start},
               {*start + part.front().size}},
              std::move(cut),
              layout,
              name),
          t,
          axes);
    }
    if (block_.function[value].type != type) {
      value = folded_.made(folded_.emitter.row_major(value, name), t, axes);
    }
    folded_.mark(folded_.origin_of(NodeId::None, t, axes));
    return value;
  }

  // --- What happens at one point.

  // All points, up to the next collective over time. One that needs what
  // another has not made yet lets that go on first.
  void advance_all() {
    bool is_waiting = true;
    while (is_waiting) {
      is_waiting = false;
      bool has_moved = false;
      for (size_t t = 0; t < parts_.size(); ++t) {
        const size_t before = parts_[t].at;
        is_waiting = !advance(t) || is_waiting;
        has_moved = has_moved || parts_[t].at > before;
      }
      WEFT_CHECK(
          !is_waiting || has_moved, "points of time wait for each other");
    }
  }

  // False when it has to wait for another point.
  bool advance(size_t t) {
    Part& part = parts_[t];
    const std::vector<Instruction>& all = part.block->instructions;
    part.next = nullptr;
    for (; part.at < all.size(); ++part.at) {
      const Instruction& instruction = all[part.at];
      const auto* start = std::get_if<Start>(&instruction);
      if (start != nullptr && folded_.bits(start->axes) != 0) {
        part.next = start;
        return true;
      }
      if (start != nullptr && is_in_time(t, *start)) {
        post(t, *start);
      } else if (start != nullptr && is_alone(*start)) {
        pass_on(part, *start);
      } else if (const auto* wait = std::get_if<Wait>(&instruction)) {
        if (!finish(t, wait->value)) {
          return false;
        }
      } else if (!copy(t, instruction)) {
        return false;
      }
    }
    return true;
  }

  // Whether it is a collective over axes of time with a single point, where
  // there is nobody to meet.
  bool is_alone(const Start& start) const {
    return is_collective(start.kind) && std::all_of(
                                            start.axes.begin(),
                                            start.axes.end(),
                                            [this](const std::string& axis) {
                                              return folded_.is_of_time(axis);
                                            });
  }

  void pass_on(Part& part, const Start& start) {
    for (size_t i = 0; i < start.results.size(); ++i) {
      const ValueId value = part.now[index(start.operands[i])];
      const ValueId result = start.results[i];
      WEFT_CHECK(
          block_.function[value].type == part.block->function[result].type,
          label(*part.block, start),
          ": changes what a single point has");
      block_.layouts[index(value)] = part.block->layouts[index(result)];
      part.now[index(result)] = value;
    }
  }

  // Whether it goes from one point of this rank's time to another.
  bool is_in_time(size_t t, const Start& start) const {
    const int64_t count = rank_count(time_);
    return start.peer >= 0 && start.peer / count == rank_ &&
           start.peer % count != static_cast<int64_t>(t);
  }

  void post(size_t t, const Start& start) {
    Part& part = parts_[t];
    const auto peer = static_cast<size_t>(start.peer % rank_count(time_));
    if (start.kind == TransferKind::Send) {
      const ValueId value = part.now[index(start.operands.front())];
      sent_[{t, peer}].push_back(value);
      part.now[index(start.results.front())] = value;
    } else {
      part.expected[start.results.front()] = {peer, part.received[peer]++};
    }
  }

  // False when what is waited for has not been sent yet.
  bool finish(size_t t, ValueId value) {
    Part& part = parts_[t];
    if (const auto found = part.expected.find(value);
        found != part.expected.end()) {
      const auto& [from, number] = found->second;
      const std::vector<ValueId>& sent = sent_[{from, t}];
      if (number >= sent.size()) {
        return false;
      }
      part.now[index(value)] = sent[number];
      WEFT_CHECK(
          block_.function[sent[number]].type.sizes ==
              part.block->function[value].type.sizes,
          "%",
          part.block->function[value].name,
          " is something else than was sent");
      return true;
    }
    const ValueId mine = part.now[index(value)];
    // Points that are alike wait once.
    if (open_.erase(mine) > 0) {
      block_.instructions.emplace_back(Wait{mine});
      folded_.mark(folded_.origin_of(
          (*part.origins)[part.at].node, t, folded_.axes[index(mine)]));
    }
    return true;
  }

  // False when it is shared with another point that has not come to it yet.
  bool copy(size_t t, const Instruction& instruction) {
    Part& part = parts_[t];
    TimeAxes axes = 0;
    for (const ValueId read : reads(*part.block, instruction)) {
      axes |= folded_.axes[index(part.now[index(read)])];
    }
    const std::vector<ValueId> results = makes(*part.block, instruction);
    for (const ValueId result : results) {
      axes |= folded_.bits(axes_of(part.block->layouts[index(result)]));
    }
    const size_t alike = folded_.first_alike(t, axes);
    std::vector<std::vector<ValueId>>& done = done_[{axes, alike}];
    if (alike < t) {
      const size_t number = part.shared[axes];
      if (number >= done.size()) {
        return false;
      }
      WEFT_CHECK(
          done[number].size() == results.size(),
          "points of time differ at ",
          label(*part.block, instruction));
      for (size_t i = 0; i < results.size(); ++i) {
        part.now[index(results[i])] = done[number][i];
      }
      part.shared[axes] += 1;
      return true;
    }
    std::vector<ValueId> made;
    for (const ValueId result : results) {
      const Value& value = part.block->function[result];
      made.push_back(folded_.add(
          value.name, value.type, part.block->layouts[index(result)], t, axes));
    }
    if (const auto* call = std::get_if<Call>(&instruction)) {
      Node node = part.block->function.nodes[index(call->node)];
      const std::vector<ValueId> read = operands(node);
      replace_operands(node, part.now);
      if (reads_memory(node)) {
        folded_.emitter.phase = node.phase;
        std::vector<ValueId> mine = operands(node);
        mine.front() = laid_out_as(
            mine.front(), part.block->function[read.front()].type, t, axes);
        set_operands(node, mine);
      }
      node.results = made;
      block_.instructions.emplace_back(
          Call{static_cast<NodeId>(block_.function.nodes.size())});
      block_.function.nodes.push_back(std::move(node));
    } else {
      Start start = std::get<Start>(instruction);
      for (ValueId& operand : start.operands) {
        operand = part.now[index(operand)];
      }
      start.results = made;
      std::erase_if(start.axes, [this](const std::string& axis) {
        return folded_.is_of_time(axis);
      });
      if (start.peer >= 0) {
        const int64_t count = rank_count(time_);
        WEFT_CHECK_USER(
            start.peer % count == static_cast<int64_t>(t),
            label(*part.block, instruction),
            ": what goes to another rank and another point of time at once "
            "cannot be sent; split another dim over time");
        start.peer /= count;
      }
      block_.instructions.emplace_back(std::move(start));
      open_.insert(made.front());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      part.now[index(results[i])] = made[i];
    }
    folded_.mark(folded_.origin_of((*part.origins)[part.at].node, t, axes));
    done.push_back(std::move(made));
    return true;
  }

  ValueId laid_out_as(
      ValueId value, const TensorType& type, size_t t, TimeAxes axes) {
    const size_t before = block_.function.values.size();
    const ValueId out =
        folded_.emitter.laid_out_as(value, type, block_.function[value].name);
    for (size_t i = before; i < block_.function.values.size(); ++i) {
      folded_.made(static_cast<ValueId>(i), t, axes);
    }
    return out;
  }

  // --- What happens between points.

  void join_parts() {
    const Start& any = *parts_.front().next;
    const TimeAxes all = (TimeAxes{1} << time_.axes.size()) - 1;
    std::map<size_t, std::vector<size_t>> groups;
    for (size_t t = 0; t < parts_.size(); ++t) {
      const Start* start = parts_[t].next;
      WEFT_CHECK(
          start != nullptr && start->axes == any.axes &&
              start->kind == any.kind,
          "points of time differ in what travels between them");
      groups[folded_.first_alike(t, all & ~folded_.bits(any.axes))].push_back(
          t);
    }
    for (const auto& [first, group] : groups) {
      for (size_t i = 0; i < parts_[first].next->operands.size(); ++i) {
        join_group(group, i);
      }
    }
    for (Part& part : parts_) {
      part.at += 1;
    }
  }

  void join_group(const std::vector<size_t>& group, size_t number) {
    std::vector<Comer> comers;
    for (const size_t t : group) {
      const Part& part = parts_[t];
      const ValueId result = part.next->results[number];
      comers.push_back(
          {.part = t,
           .value = part.now[index(part.next->operands[number])],
           .node = (*part.origins)[part.at].node,
           .type = part.block->function[result].type,
           .layout = part.block->layouts[index(result)]});
    }
    const Start& start = *parts_[group.front()].next;
    const std::vector<ValueId> results =
        meet(folded_, start.kind, start.axes, comers, in_backward_);
    for (size_t i = 0; i < group.size(); ++i) {
      Part& part = parts_[group[i]];
      part.now[index(part.next->results[number])] = results[i];
    }
  }

  const Lowering& lowering_;
  const Mesh& time_;
  const int64_t rank_;
  const std::vector<size_t>& in_backward_;
  FoldedBlock folded_;
  Block& block_ = folded_.block;
  std::vector<Part> parts_;
  // Transfers that have no wait yet, by their first result.
  std::set<ValueId> open_;
  // From one point to another, in order.
  std::map<std::pair<size_t, size_t>, std::vector<ValueId>> sent_;
  // What was made, by the axes that it depends on and the first point of them,
  // in order: other points that are alike share it.
  std::map<std::pair<TimeAxes, size_t>, std::vector<std::vector<ValueId>>>
      done_;
};

}  // namespace

void fold_time(Lowering& lowering) {
  if (lowering.plan.time.axes.empty()) {
    return;
  }
  Program program;
  program.name = lowering.program.name;
  program.meshes = {lowering.space};
  program.time = lowering.plan.time;
  program.constants = lowering.program.constants;
  const std::vector<int64_t> order = backward_order(schedule_of(lowering.plan));
  std::vector<size_t> in_backward(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    in_backward[static_cast<size_t>(order[i])] = i;
  }
  std::vector<std::vector<Origin>> origins;
  for (int64_t rank = 0; rank < rank_count(lowering.space); ++rank) {
    TimeFold fold(lowering, rank, in_backward);
    Block block = fold.build();
    add_block(program, origins, std::move(block), fold.origins());
  }
  name_blocks(program);
  lowering.program = std::move(program);
  lowering.origins = std::move(origins);
}

}  // namespace weft
