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
#include "lower/emitter.h"
#include "lower/move.h"
#include "lower/pass.h"
#include "lower/time_layout.h"
#include "ops/kernel.h"
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

// Axes of time as bits, in their order.
using TimeAxes = uint32_t;

class TimeFold {
 public:
  // `in_backward`: by point of time, its place in the order of backward.
  TimeFold(
      const Lowering& lowering,
      int64_t rank,
      const std::vector<size_t>& in_backward)
      : lowering_(lowering),
        time_(lowering.plan.time),
        space_(lowering.space),
        rank_(rank),
        in_backward_(in_backward),
        emitter_{
            .block = block_,
            .mesh = space_,
            .rank = rank,
            .phase = Phase::Forward,
            .names = names_} {
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
    block_.first_rank = block_.last_rank = rank;
    block_.function.name = step_of(lowering.graph).name;
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
      const ValueId value = parts_.front().now[index(output.value)];
      WEFT_CHECK(
          axes_[index(value)] == 0,
          "%",
          block_.function[value].name,
          " is returned in parts");
      block_.function.outputs.push_back(output);
      block_.function.outputs.back().value = value;
    }
    return std::move(block_);
  }

  std::vector<Origin> origins() { return std::move(origins_); }

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

  TimeAxes bits(const Axes& axes) const {
    TimeAxes out = 0;
    for (size_t i = 0; i < time_.axes.size(); ++i) {
      const Axis& axis = time_.axes[i];
      out |= axis.size > 1 && contains(axes, axis.name) ? TimeAxes{1} << i : 0;
    }
    return out;
  }

  // The first point with the same coordinates on these axes.
  size_t first_alike(size_t part, TimeAxes axes) const {
    const std::vector<int64_t> where =
        coordinates(time_, static_cast<int64_t>(part));
    int64_t first = 0;
    for (size_t i = 0; i < where.size(); ++i) {
      const bool counts = (axes >> i & 1) != 0;
      first = first * time_.axes[i].size + (counts ? where[i] : 0);
    }
    return static_cast<size_t>(first);
  }

  Origin origin_of(NodeId node, size_t part, TimeAxes axes) const {
    return {.node = node, .part = axes == 0 ? -1 : static_cast<int64_t>(part)};
  }

  void mark(Origin origin) {
    origins_.resize(block_.instructions.size(), origin);
  }

  ValueId add(
      const std::string& name,
      TensorType type,
      Layout layout,
      size_t part,
      TimeAxes axes) {
    const size_t first = first_alike(part, axes);
    const std::string unique =
        emitter_.unique(first == 0 ? name : cat(name, ".part", first));
    axes_.push_back(axes);
    return add_value(
        block_,
        unique,
        std::move(type),
        std::move(layout),
        static_cast<int64_t>(first));
  }

  // What one of the emitter's calls made.
  ValueId made(ValueId value, size_t part, TimeAxes axes) {
    axes_.resize(block_.function.values.size(), axes);
    block_.parts[index(value)] = static_cast<int64_t>(first_alike(part, axes));
    return value;
  }

  // --- Inputs.

  void add_input(size_t number) {
    const Block& first = *parts_.front().block;
    const Input& input = first.function.inputs[number];
    const Value& value = first.function[input.value];
    const Layout& layout = first.layouts[index(input.value)];
    const TimeAxes axes = bits(axes_of(layout));
    TensorType type = value.type;
    Layout whole_layout = layout;
    if (axes != 0) {
      const TensorType whole =
          make_type(type.dtype, whole_sizes(type, layout, lowering_.mesh));
      whole_layout = without_time(layout, whole, lowering_.mesh, time_);
      type = local_type(whole, whole_layout, space_, rank_);
    }
    const ValueId whole = add(value.name, type, whole_layout, 0, 0);
    block_.function.inputs.push_back(input);
    block_.function.inputs.back().value = whole;
    for (size_t t = 0; t < parts_.size(); ++t) {
      const size_t alike = first_alike(t, axes);
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
    emitter_.phase = Phase::Forward;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (bits(axes_of(layout.dims[dim])) == 0) {
        continue;
      }
      const std::vector<Piece> mine = ranges_of(
          space_, block_.layouts[index(whole)].dims[dim], sizes[dim], rank_);
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
      value = made(
          emitter_.call(
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
      value = made(emitter_.row_major(value, name), t, axes);
    }
    mark(origin_of(NodeId::None, t, axes));
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
      if (start != nullptr && bits(start->axes) != 0) {
        part.next = start;
        return true;
      }
      if (start != nullptr && is_in_time(t, *start)) {
        post(t, *start);
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
      mark(origin_of((*part.origins)[part.at].node, t, axes_[index(mine)]));
    }
    return true;
  }

  // False when it is shared with another point that has not come to it yet.
  bool copy(size_t t, const Instruction& instruction) {
    Part& part = parts_[t];
    TimeAxes axes = 0;
    for (const ValueId read : reads(*part.block, instruction)) {
      axes |= axes_[index(part.now[index(read)])];
    }
    const std::vector<ValueId> results = makes(*part.block, instruction);
    for (const ValueId result : results) {
      axes |= bits(axes_of(part.block->layouts[index(result)]));
    }
    const size_t alike = first_alike(t, axes);
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
      made.push_back(add(
          value.name, value.type, part.block->layouts[index(result)], t, axes));
    }
    if (const auto* call = std::get_if<Call>(&instruction)) {
      Node node = part.block->function.nodes[index(call->node)];
      replace_operands(node, part.now);
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
    mark(origin_of((*part.origins)[part.at].node, t, axes));
    done.push_back(std::move(made));
    return true;
  }

  // --- What happens between points.

  void join_parts() {
    const TimeAxes over = bits(parts_.front().next->axes);
    const TimeAxes all = (TimeAxes{1} << time_.axes.size()) - 1;
    std::map<size_t, std::vector<size_t>> groups;
    for (size_t t = 0; t < parts_.size(); ++t) {
      const Start* start = parts_[t].next;
      WEFT_CHECK(
          start != nullptr && start->axes == parts_.front().next->axes &&
              start->kind == parts_.front().next->kind,
          "points of time differ in what travels between them");
      groups[first_alike(t, all & ~over)].push_back(t);
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

  ValueId operand(size_t t, size_t number) const {
    return parts_[t].now[index(parts_[t].next->operands[number])];
  }

  // Axes of operand or result after the points of `start` have come together.
  TimeAxes axes_after(const std::vector<size_t>& group, size_t number) const {
    TimeAxes axes = 0;
    for (const size_t t : group) {
      axes |= axes_[index(operand(t, number))];
    }
    return axes & ~bits(parts_[group.front()].next->axes);
  }

  void join_group(const std::vector<size_t>& group, size_t number) {
    const Start& start = *parts_[group.front()].next;
    Axes space;
    Axes time;
    for (const std::string& axis : start.axes) {
      (find_axis(time_, axis) < 0 ? space : time).push_back(axis);
    }
    const TimeAxes axes = axes_after(group, number);
    const size_t first = group.front();
    const NodeId node = (*parts_[first].origins)[parts_[first].at].node;
    const std::string name = block_.function[operand(first, number)].name;
    const auto travel = [&](ValueId value) {
      if (space.empty()) {
        return value;
      }
      const Moved moved = after_transfer(
          start.kind,
          space,
          {block_.function[value].type, block_.layouts[index(value)]},
          lowering_.mesh);
      value = made(
          emitter_.transfer(
              start.kind, value, space, moved.type, moved.layout, name),
          first,
          axes);
      mark(origin_of(node, first, axes));
      return value;
    };
    const auto set = [&](size_t t, ValueId value) {
      parts_[t].now[index(parts_[t].next->results[number])] = value;
    };
    switch (start.kind) {
      case TransferKind::AllReduce: {
        const ValueId sum = travel(add_up(group, number, time, axes));
        for (const size_t t : group) {
          set(t, sum);
        }
        return;
      }
      case TransferKind::AllGather: {
        std::vector<ValueId> pieces;
        for (const size_t t : group) {
          pieces.push_back(operand(t, number));
        }
        const ValueId whole =
            travel(join_pieces(pieces, time, first, axes, node));
        for (const size_t t : group) {
          set(t, whole);
        }
        return;
      }
      case TransferKind::ReduceScatter: {
        const ValueId sum = travel(add_up(group, number, {}, axes));
        const int64_t rows = block_.function[sum].type.sizes.front() /
                             static_cast<int64_t>(group.size());
        for (size_t i = 0; i < group.size(); ++i) {
          set(group[i], cut_piece(sum, 0, i, rows, group[i], number, node));
        }
        return;
      }
      case TransferKind::AllToAll: {
        WEFT_CHECK_USER(
            space.empty(),
            "%",
            name,
            " would be exchanged over axes of the mesh and of time at once (",
            join(start.axes, ", "),
            "); split another dim over time");
        exchange(group, number, time, node);
        return;
      }
      default:
        WEFT_CHECK(false, "no collective");
    }
  }

  // The sum over the group, one part after the other as they come; `summed` are
  // the axes over which it is whole then.
  ValueId add_up(
      std::vector<size_t> group,
      size_t number,
      const Axes& summed,
      TimeAxes axes) {
    const Part& any = parts_[group.front()];
    const Phase phase = phase_of((*any.origins)[any.at].node);
    if (phase == Phase::Backward || phase == Phase::Recompute) {
      std::sort(group.begin(), group.end(), [&](size_t a, size_t b) {
        return in_backward_[a] < in_backward_[b];
      });
    }
    const size_t first = *std::min_element(group.begin(), group.end());
    ValueId sum = operand(group.front(), number);
    const std::string name = block_.function[sum].name;
    for (size_t i = 1; i < group.size(); ++i) {
      const size_t t = group[i];
      const Part& part = parts_[t];
      const NodeId node = (*part.origins)[part.at].node;
      const ValueId next = operand(t, number);
      emitter_.phase = phase_of(node);
      Layout layout = block_.layouts[index(sum)];
      if (i + 1 == group.size()) {
        layout = without_partial(layout, summed);
      }
      sum = emitter_.call(
          "aten.add.Tensor",
          {{sum}, {next}},
          like(block_.function[sum].type),
          std::move(layout),
          name);
      made(sum, first, axes);
      mark(
          {.node = node,
           .part = static_cast<int64_t>(first_alike(t, axes_[index(next)]))});
    }
    return sum;
  }

  ValueId join_pieces(
      const std::vector<ValueId>& pieces,
      const Axes& time,
      size_t part,
      TimeAxes axes,
      NodeId node) {
    const ValueId first = pieces.front();
    const Moved moved = after_transfer(
        TransferKind::AllGather,
        time,
        {block_.function[first].type, block_.layouts[index(first)]},
        lowering_.mesh);
    Arg::List list;
    for (const ValueId piece : pieces) {
      list.push_back({piece});
    }
    emitter_.phase = phase_of(node);
    const ValueId whole = made(
        emitter_.call(
            "aten.cat",
            {{std::move(list)}},
            moved.type,
            moved.layout,
            block_.function[first].name),
        part,
        axes);
    mark(origin_of(node, part, axes));
    return whole;
  }

  // Piece `i` of a dim, as the result of the transfer at point `t`.
  ValueId cut_piece(
      ValueId value,
      int64_t dim,
      size_t i,
      int64_t size,
      size_t t,
      size_t number,
      NodeId node) {
    const Part& part = parts_[t];
    const ValueId theirs = part.next->results[number];
    const TimeAxes axes = axes_[index(value)] | bits(part.next->axes);
    TensorType type = block_.function[value].type;
    type.sizes[static_cast<size_t>(dim)] = size;
    emitter_.phase = phase_of(node);
    const ValueId piece = made(
        emitter_.call(
            "aten.slice.Tensor",
            {{value},
             {dim},
             {static_cast<int64_t>(i) * size},
             {(static_cast<int64_t>(i) + 1) * size}},
            std::move(type),
            part.block->layouts[index(theirs)],
            block_.function[value].name),
        t,
        axes);
    mark(origin_of(node, t, axes));
    return piece;
  }

  // Sizes [1, w b, ...] of w points become [w, b, ...].
  void exchange(
      const std::vector<size_t>& group,
      size_t number,
      const Axes& time,
      NodeId node) {
    std::vector<ValueId> results;
    for (size_t i = 0; i < group.size(); ++i) {
      Arg::List list;
      for (const size_t t : group) {
        const ValueId value = operand(t, number);
        const int64_t size = block_.function[value].type.sizes[1] /
                             static_cast<int64_t>(group.size());
        list.push_back({cut_piece(value, 1, i, size, group[i], number, node)});
      }
      const Part& part = parts_[group[i]];
      const ValueId theirs = part.next->results[number];
      const TimeAxes axes = axes_after(group, number) | bits(time);
      results.push_back(made(
          emitter_.call(
              "aten.cat",
              {{std::move(list)}},
              part.block->function[theirs].type,
              part.block->layouts[index(theirs)],
              part.block->function[theirs].name),
          group[i],
          axes));
      mark(origin_of(node, group[i], axes));
    }
    for (size_t i = 0; i < group.size(); ++i) {
      const Part& part = parts_[group[i]];
      parts_[group[i]].now[index(part.next->results[number])] = results[i];
    }
  }

  Phase phase_of(NodeId node) const {
    return node == NodeId::None
               ? Phase::Optimizer
               : step_of(lowering_.graph).nodes[index(node)].phase;
  }

  const Lowering& lowering_;
  const Mesh& time_;
  const Mesh space_;
  const int64_t rank_;
  const std::vector<size_t>& in_backward_;
  std::vector<Part> parts_;
  Block block_;
  std::vector<Origin> origins_;
  // By value of the block, the axes of time that it depends on.
  std::vector<TimeAxes> axes_;
  std::unordered_set<std::string> names_;
  Emitter emitter_;
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
