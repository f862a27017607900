// SPDX-License-Identifier: Apache-2.0
#include "lower/cut_crossings.h"

#include "base/error.h"
#include "lower/box_parts.h"
#include "lower/emitter.h"
#include "ops/call.h"
#include "ops/crossing.h"
#include "ops/kernel.h"
#include "program/piece.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace weft {
namespace {

// Ranges of each dim.
using Ranges = std::vector<std::vector<Piece>>;

bool is_same(const Ranges& a, const Ranges& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](auto& one, auto& other) {
        return std::equal(
            one.begin(),
            one.end(),
            other.begin(),
            other.end(),
            [](auto& p, auto& q) {
              return p.start == q.start && p.size == q.size;
            });
      });
}

int64_t count_of(const Ranges& ranges) {
  int64_t count = 1;
  for (const std::vector<Piece>& dim : ranges) {
    int64_t size = 0;
    for (const Piece& range : dim) {
      size += range.size;
    }
    count *= size;
  }
  return count;
}

// What two ranks have of a tensor in common, or a part of that: where it lies
// in the piece of each.
struct SharedBox {
  Box from;
  Box to;
};

int64_t count_of(const Box& box) {
  int64_t count = 1;
  for (const Piece& piece : box) {
    count *= piece.size;
  }
  return count;
}

// The stretches of a dim that two ranks share.
std::vector<std::pair<Piece, Piece>> shared_ranges(
    const std::vector<Piece>& from, const std::vector<Piece>& to) {
  std::vector<std::pair<Piece, Piece>> out;
  int64_t from_before = 0;
  for (const Piece& mine : from) {
    int64_t to_before = 0;
    for (const Piece& theirs : to) {
      const int64_t start = std::max(mine.start, theirs.start);
      const int64_t end =
          std::min(mine.start + mine.size, theirs.start + theirs.size);
      if (start < end) {
        out.push_back(
            {{from_before + start - mine.start, end - start, 0},
             {to_before + start - theirs.start, end - start, 0}});
      }
      to_before += theirs.size;
    }
    from_before += mine.size;
  }
  return out;
}

std::vector<SharedBox> shared_boxes(const Ranges& from, const Ranges& to) {
  std::vector<SharedBox> boxes = {{}};
  for (size_t dim = 0; dim < from.size(); ++dim) {
    std::vector<SharedBox> longer;
    for (const SharedBox& box : boxes) {
      for (const auto& [mine, theirs] : shared_ranges(from[dim], to[dim])) {
        SharedBox& next = longer.emplace_back(box);
        next.from.push_back(mine);
        next.to.push_back(theirs);
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

template <typename List>
List in_order(const List& list, const std::vector<size_t>& order) {
  List out;
  for (const size_t dim : order) {
    out.push_back(list[dim]);
  }
  return out;
}

Box whole_box(const Dims& sizes) {
  Box box;
  for (const int64_t size : sizes) {
    box.push_back({0, size, size});
  }
  return box;
}

// What a rank sends at a crossing.
struct Parcel {
  // In the rank's piece, its dims in this order.
  Box box;
  std::vector<size_t> order;
  // Which part of what arrives there it is.
  size_t receiver = 0;
  size_t number = 0;
};

// One end of a crossing.
struct End {
  size_t rank = 0;
  ValueId value = ValueId::None;
  Ranges ranges;
  // Of the end that sends.
  std::vector<Parcel> parcels = {};
  // Of the end that receives: in its piece, and the values once they are there.
  std::vector<Box> boxes = {};
  std::vector<ValueId> values = {};
};

struct BothEnds {
  std::vector<End> senders;
  std::vector<End> receivers;
};

// By name and part in time.
using CrossingKey = std::pair<std::string, int64_t>;

class CrossingCutter {
 public:
  explicit CrossingCutter(std::vector<PositionRank>& ranks)
      : ranks_(ranks), routes_(ranks.size()), at_(ranks.size()) {}

  Routes run() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      collect(i);
    }
    for (auto& [key, ends] : crossings_) {
      match(key, ends);
    }
    // Who sends must know what it is there.
    for (size_t i = 0; i < ranks_.size(); ++i) {
      rewrite(i, false);
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      rewrite(i, true);
    }
    return std::move(routes_);
  }

 private:
  void collect(size_t number) {
    const PositionRank& rank = ranks_[number];
    const Function& step = step_of(rank.lowering->graph);
    const std::vector<size_t> positions = positions_of(*rank.lowering);
    for (size_t at = 0; at < rank.block.instructions.size(); ++at) {
      const auto* call = std::get_if<Call>(&rank.block.instructions[at]);
      if (call == nullptr) {
        continue;
      }
      const Node& node = rank.block.function.nodes[index(call->node)];
      const auto crossing = crossing_of(node);
      if (!crossing) {
        continue;
      }
      const Origin& origin = rank.origins[at];
      const Node& whole = step.nodes[index(origin.node)];
      const CrossingKey key = {step[whole.results.front()].name, origin.part};
      const Dims& sizes = step[whole.results.front()].type.sizes;
      const size_t here = *rank.lowering->position;
      if (positions[static_cast<size_t>(crossing->from_stage)] == here) {
        const ValueId value = operands(node).front();
        crossings_[key].senders.push_back(
            {number, value, ranges(rank, value, sizes, origin.part)});
        at_[number][at] = key;
      } else if (positions[static_cast<size_t>(crossing->to_stage)] == here) {
        const ValueId value = node.results.front();
        crossings_[key].receivers.push_back(
            {number, value, ranges(rank, value, sizes, origin.part)});
        at_[number][at] = key;
      }
    }
  }

  static std::vector<size_t> positions_of(const Lowering& lowering) {
    const Schedule schedule = schedule_of(lowering.plan);
    std::vector<size_t> positions;
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      positions.push_back(static_cast<size_t>(position_of(schedule, stage)));
    }
    return positions;
  }

  // What the rank has of the value.
  static Ranges ranges(
      const PositionRank& rank,
      ValueId value,
      const Dims& sizes,
      int64_t part) {
    const Lowering& lowering = *rank.lowering;
    const Layout& layout = rank.block.layouts[index(value)];
    WEFT_CHECK(layout.partial.empty(), "a partial sum crosses");
    const int64_t place =
        place_on(lowering.plan.time, rank.number, std::max<int64_t>(part, 0));
    Ranges out;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      out.push_back(
          ranges_of(lowering.mesh, layout.dims[dim], sizes[dim], place));
    }
    return out;
  }

  std::string layout_at(const End& end) const {
    const PositionRank& rank = ranks_[end.rank];
    return cat(
        print(rank.block.layouts[index(end.value)]),
        " on ",
        print(rank.lowering->space));
  }

  void match(const CrossingKey& key, BothEnds& ends) {
    const std::string hint =
        "; a part in time must have the same rows at all stages: put axes of "
        "time first, as in %batch.* [micro*data, -]";
    WEFT_CHECK_USER(
        !ends.senders.empty() && !ends.receivers.empty(),
        "%",
        key.first,
        " crosses between stages, and is split over time at only one of them (",
        layout_at(
            (ends.senders.empty() ? ends.receivers : ends.senders).front()),
        ")",
        hint);
    // Those with the same piece take turns.
    std::vector<std::vector<size_t>> groups;
    for (size_t i = 0; i < ends.senders.size(); ++i) {
      const auto found =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
            return is_same(
                ends.senders[group.front()].ranges, ends.senders[i].ranges);
          });
      (found == groups.end() ? groups.emplace_back() : *found).push_back(i);
    }
    for (size_t r = 0; r < ends.receivers.size(); ++r) {
      End& to = ends.receivers[r];
      const TensorType& type = ranks_[to.rank].block.function[to.value].type;
      WEFT_CHECK(is_dense(type), "%", key.first, " arrives with gaps");
      const std::vector<size_t> order = memory_order(strides_of(type));
      int64_t count = 0;
      for (const std::vector<size_t>& group : groups) {
        End& from = ends.senders[group[r % group.size()]];
        for (const SharedBox& box : shared_boxes(from.ranges, to.ranges)) {
          from.parcels.push_back(
              {in_order(box.from, order), order, r, to.boxes.size()});
          to.boxes.push_back(in_order(box.to, order));
          count += count_of(box.to);
        }
      }
      WEFT_CHECK_USER(
          count == count_of(to.ranges) && count > 0,
          "%",
          key.first,
          " crosses from ",
          layout_at(ends.senders.front()),
          " to ",
          layout_at(to),
          ", where a part in time has other elements",
          hint);
    }
  }

  // Puts calls in the place of what leaves or arrives.
  void rewrite(size_t number, bool leaves) {
    PositionRank& rank = ranks_[number];
    Block& block = rank.block;
    NameTable names(block.function);
    const size_t first_node = block.function.nodes.size();
    const std::vector<Instruction> before =
        std::exchange(block.instructions, {});
    const std::vector<Origin> origins = std::exchange(rank.origins, {});
    std::map<size_t, CrossingKey> later;
    const std::vector<bool> needed =
        leaves ? std::vector<bool>(before.size(), true)
               : needed_here(rank, before, origins);
    for (size_t at = 0; at < before.size(); ++at) {
      const auto found = at_[number].find(at);
      if (!needed[at]) {
        continue;
      }
      End* end = found == at_[number].end()
                     ? nullptr
                     : find_end(crossings_.at(found->second), number, leaves);
      if (end == nullptr) {
        if (found != at_[number].end()) {
          later[block.instructions.size()] = found->second;
        }
        block.instructions.push_back(before[at]);
      } else {
        const Node& node =
            block.function.nodes[index(std::get<Call>(before[at]).node)];
        Emitter emitter = {
            .block = block,
            .mesh = rank.lowering->space,
            .rank = rank.number,
            .phase = node.phase,
            .names = names};
        if (leaves) {
          cut(emitter, crossings_.at(found->second), *end);
        } else {
          join(emitter, *end);
        }
      }
      rank.origins.resize(block.instructions.size(), origins[at]);
    }
    at_[number] = std::move(later);
    for (size_t i = first_node; i < block.function.nodes.size(); ++i) {
      for (const ValueId result : block.function.nodes[i].results) {
        block.function[result].node = static_cast<NodeId>(i);
      }
    }
  }

  // A crossing's operand is moved for it where it begins, and its result where
  // it ends.
  static std::vector<bool> needed_here(
      const PositionRank& rank,
      const std::vector<Instruction>& instructions,
      const std::vector<Origin>& origins) {
    const Function& step = step_of(rank.lowering->graph);
    const std::vector<size_t> positions = positions_of(*rank.lowering);
    std::vector<bool> out(instructions.size(), true);
    // What crossings made, and what was made of that for them.
    std::unordered_set<ValueId> made;
    for (size_t at = 0; at < instructions.size(); ++at) {
      const NodeId node = origins[at].node;
      const auto crossing = node == NodeId::None
                                ? std::nullopt
                                : crossing_of(step.nodes[index(node)]);
      if (!crossing) {
        continue;
      }
      const auto* call = std::get_if<Call>(&instructions[at]);
      const auto* wait = std::get_if<Wait>(&instructions[at]);
      const bool is_call =
          call != nullptr &&
          crossing_of(rank.block.function.nodes[index(call->node)]);
      std::vector<ValueId> read = reads(rank.block, instructions[at]);
      if (wait != nullptr) {
        read = {wait->value};
      }
      const bool is_after =
          is_call || std::any_of(read.begin(), read.end(), [&](ValueId value) {
            return made.contains(value);
          });
      if (is_after) {
        const std::vector<ValueId> more = makes(rank.block, instructions[at]);
        made.insert(more.begin(), more.end());
      }
      const bool begins =
          positions[static_cast<size_t>(crossing->from_stage)] ==
          *rank.lowering->position;
      out[at] = is_call || is_after != begins;
    }
    return out;
  }

  static End* find_end(BothEnds& ends, size_t rank, bool leaves) {
    std::vector<End>& all = leaves ? ends.senders : ends.receivers;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const End& end) {
          return end.rank == rank;
        });
    return found == all.end() ? nullptr : &*found;
  }

  void cut(Emitter& emitter, BothEnds& ends, const End& end) {
    Block& block = emitter.block;
    const std::string name = block.function[end.value].name;
    const int64_t part = block.parts[index(end.value)];
    const size_t first_value = block.function.values.size();
    // What was cut already.
    std::vector<std::pair<const Parcel*, ValueId>> done;
    for (const Parcel& parcel : end.parcels) {
      const auto found =
          std::find_if(done.begin(), done.end(), [&](const auto& one) {
            return one.first->order == parcel.order &&
                   is_same({one.first->box}, {parcel.box});
          });
      ValueId value = found == done.end() ? ValueId::None : found->second;
      if (found == done.end()) {
        value = permuted(emitter, end.value, parcel.order, name);
        const Box whole = whole_box(block.function[value].type.sizes);
        value = emitter.row_major(
            cut_part(emitter, {whole, value}, parcel.box, name), name);
        done.emplace_back(&parcel, value);
      }
      const End& to = ends.receivers[parcel.receiver];
      routes_[end.rank][value].push_back(
          {to.rank, to.values.at(parcel.number)});
    }
    for (size_t i = first_value; i < block.function.values.size(); ++i) {
      block.parts[i] = part;
    }
  }

  static ValueId permuted(
      Emitter& emitter,
      ValueId value,
      const std::vector<size_t>& order,
      const std::string& name) {
    if (std::is_sorted(order.begin(), order.end())) {
      return value;
    }
    const TensorType type = emitter.block.function[value].type;
    return emitter.call(
        "aten.permute",
        {{value}, to_arg(Dims(order.begin(), order.end()))},
        make_type(
            type.dtype,
            in_order(type.sizes, order),
            in_order(strides_of(type), order)),
        replicated(static_cast<int>(order.size())),
        name);
  }

  static void join(Emitter& emitter, End& end) {
    Block& block = emitter.block;
    const TensorType type = block.function[end.value].type;
    const std::string name = block.function[end.value].name;
    const int64_t part = block.parts[index(end.value)];
    const std::vector<size_t> order = memory_order(strides_of(type));
    const bool is_permuted = !std::is_sorted(order.begin(), order.end());
    if (end.boxes.size() == 1 && !is_permuted) {
      end.values = {end.value};
      return;
    }
    const size_t first_value = block.function.values.size();
    std::vector<BoxPart> parts;
    for (const Box& box : end.boxes) {
      end.values.push_back(add_value(
          block,
          emitter.names.unique("", cat(name, ".part")),
          make_type(type.dtype, sizes_of(box)),
          replicated(static_cast<int>(box.size()))));
      parts.push_back({box, end.values.back()});
    }
    ValueId joined = join_parts(
        emitter, parts, whole_box(in_order(type.sizes, order)), 0, name);
    if (is_permuted) {
      std::vector<size_t> back(order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        back[order[i]] = i;
      }
      joined = permuted(emitter, joined, back, name);
    }
    for (size_t i = first_value; i < block.function.values.size(); ++i) {
      block.parts[i] = part;
    }
    // Readers know it by this value.
    block.function.nodes.back().results = {end.value};
  }

  std::vector<PositionRank>& ranks_;
  Routes routes_;
  std::map<CrossingKey, BothEnds> crossings_;
  // By rank: the instructions that are crossings.
  std::vector<std::map<size_t, CrossingKey>> at_;
};

}  // namespace

Routes cut_crossings(std::vector<PositionRank>& ranks) {
  return CrossingCutter(ranks).run();
}

}  // namespace weft
