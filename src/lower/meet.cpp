// SPDX-License-Identifier: Apache-2.0
#include "lower/meet.h"

#include "base/error.h"
#include "lower/move.h"
#include "ops/kernel.h"
#include "program/transfer.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

class Meeting {
 public:
  Meeting(
      FoldedBlock& folded,
      TransferKind kind,
      const Axes& axes,
      const std::vector<Comer>& comers)
      : folded_(folded),
        kind_(kind),
        comers_(comers),
        first_(comers.front().part),
        node_(comers.front().node),
        name_(function()[comers.front().value].name) {
    for (const std::string& axis : axes) {
      (folded.is_of_time(axis) ? time_ : space_).push_back(axis);
    }
    for (const Comer& comer : comers) {
      after_ |= folded.axes[index(comer.value)];
    }
    after_ &= ~folded.bits(axes);
  }

  std::vector<ValueId> run(const std::vector<size_t>& in_backward) {
    switch (kind_) {
      case TransferKind::AllReduce:
        return for_all(travel(add_up(time_, in_backward)));
      case TransferKind::AllGather:
        return for_all(travel(join_pieces()));
      case TransferKind::ReduceScatter: {
        const ValueId sum = travel(add_up({}, in_backward));
        const int64_t rows = function()[sum].type.sizes.front() /
                             static_cast<int64_t>(comers_.size());
        std::vector<ValueId> out;
        for (size_t i = 0; i < comers_.size(); ++i) {
          out.push_back(cut_piece(sum, 0, i, rows));
        }
        return out;
      }
      case TransferKind::AllToAll:
        WEFT_CHECK_USER(
            space_.empty(),
            "%",
            name_,
            " would be exchanged over axes of the mesh and of time at once (",
            join(space_, ", "),
            ", ",
            join(time_, ", "),
            "); split another dim over time");
        return exchange();
      default:
        WEFT_CHECK(false, "no collective");
    }
  }

 private:
  Function& function() { return folded_.block.function; }

  std::vector<ValueId> for_all(ValueId value) const {
    return std::vector<ValueId>(comers_.size(), value);
  }

  ValueId travel(ValueId value) {
    if (space_.empty()) {
      return value;
    }
    const Moved moved = after_transfer(
        kind_,
        space_,
        {function()[value].type, folded_.block.layouts[index(value)]},
        folded_.lowering.mesh);
    value = folded_.made(
        folded_.emitter.transfer(
            kind_, value, space_, moved.type, moved.layout, name_),
        first_,
        after_);
    folded_.mark(folded_.origin_of(node_, first_, after_));
    return value;
  }

  // The sum over all, one part after the other as they come; `summed` are the
  // axes over which it is whole then.
  ValueId add_up(const Axes& summed, const std::vector<size_t>& in_backward) {
    std::vector<Comer> comers = comers_;
    const Phase phase = phase_of(node_);
    if (phase == Phase::Backward || phase == Phase::Recompute) {
      std::sort(
          comers.begin(), comers.end(), [&](const Comer& a, const Comer& b) {
            return in_backward[a.part] < in_backward[b.part];
          });
    }
    ValueId sum = comers.front().value;
    const std::string name = function()[sum].name;
    for (size_t i = 1; i < comers.size(); ++i) {
      const Comer& next = comers[i];
      folded_.emitter.phase = phase_of(next.node);
      Layout layout = folded_.block.layouts[index(sum)];
      if (i + 1 == comers.size()) {
        layout = without_partial(layout, summed);
      }
      sum = folded_.emitter.call(
          "aten.add.Tensor",
          {{sum}, {next.value}},
          like(function()[sum].type),
          std::move(layout),
          name);
      folded_.made(sum, first_, after_);
      const size_t alike =
          folded_.first_alike(next.part, folded_.axes[index(next.value)]);
      folded_.mark({.node = next.node, .part = static_cast<int64_t>(alike)});
    }
    return sum;
  }

  ValueId join_pieces() {
    const ValueId first = comers_.front().value;
    const Moved moved = after_transfer(
        TransferKind::AllGather,
        time_,
        {function()[first].type, folded_.block.layouts[index(first)]},
        folded_.lowering.mesh);
    Arg::List list;
    for (const Comer& comer : comers_) {
      list.push_back({comer.value});
    }
    folded_.emitter.phase = phase_of(node_);
    const ValueId whole = folded_.made(
        folded_.emitter.call(
            "aten.cat", {{std::move(list)}}, moved.type, moved.layout, name_),
        first_,
        after_);
    folded_.mark(folded_.origin_of(node_, first_, after_));
    return whole;
  }

  // Piece `i` of a dim, for the comer of that number.
  ValueId cut_piece(ValueId value, int64_t dim, size_t i, int64_t size) {
    const Comer& comer = comers_[i];
    const TimeAxes axes = folded_.axes[index(value)] | folded_.bits(time_);
    TensorType type = function()[value].type;
    type.sizes[static_cast<size_t>(dim)] = size;
    folded_.emitter.phase = phase_of(node_);
    const ValueId piece = folded_.made(
        folded_.emitter.call(
            "aten.slice.Tensor",
            {{value},
             {dim},
             {static_cast<int64_t>(i) * size},
             {(static_cast<int64_t>(i) + 1) * size}},
            std::move(type),
            comer.layout,
            function()[value].name),
        comer.part,
        axes);
    folded_.mark(folded_.origin_of(node_, comer.part, axes));
    return piece;
  }

  // Sizes [1, w b, ...] of w points become [w, b, ...].
  std::vector<ValueId> exchange() {
    std::vector<ValueId> out;
    const TimeAxes axes = after_ | folded_.bits(time_);
    for (size_t i = 0; i < comers_.size(); ++i) {
      Arg::List list;
      for (const Comer& comer : comers_) {
        const int64_t size = function()[comer.value].type.sizes[1] /
                             static_cast<int64_t>(comers_.size());
        list.push_back({cut_piece(comer.value, 1, i, size)});
      }
      const Comer& mine = comers_[i];
      out.push_back(folded_.made(
          folded_.emitter.call(
              "aten.cat", {{std::move(list)}}, mine.type, mine.layout, name_),
          mine.part,
          axes));
      folded_.mark(folded_.origin_of(node_, mine.part, axes));
    }
    return out;
  }

  Phase phase_of(NodeId node) const {
    return node == NodeId::None
               ? Phase::Optimizer
               : step_of(folded_.lowering.graph).nodes[index(node)].phase;
  }

  FoldedBlock& folded_;
  const TransferKind kind_;
  const std::vector<Comer>& comers_;
  const size_t first_;
  const NodeId node_;
  const std::string name_;
  Axes space_;
  Axes time_;
  // On which axes of time what comes out of it depends.
  TimeAxes after_ = 0;
};

}  // namespace

std::vector<ValueId> meet(
    FoldedBlock& folded,
    TransferKind kind,
    const Axes& axes,
    const std::vector<Comer>& comers,
    const std::vector<size_t>& in_backward) {
  return Meeting(folded, kind, axes, comers).run(in_backward);
}

}  // namespace weft
