// SPDX-License-Identifier: Apache-2.0
// One rank's step: every node with the sizes of its piece, and moves wherever a
// value has to lie otherwise than it does. Ranks that come out the same share
// one block.
//
// A partial sum is reduced as soon as it is made, so that the work that follows
// hides it. Everything else is moved when it is first needed, once for all
// readers; only what was gathered in forward is gathered again in backward,
// for keeping the pieces is what the plan wanted.
#include "base/error.h"
#include "lower/assignment.h"
#include "lower/emit_halo.h"
#include "lower/emit_move.h"
#include "lower/halo.h"
#include "lower/move.h"
#include "lower/pass.h"
#include "lower/ring.h"
#include "lower/sharded_step.h"
#include "ops/kernel.h"
#include "ops/lookup.h"
#include "ops/node_builder.h"
#include "ops/op_def.h"
#include "ops/split.h"
#include "ops/strided.h"
#include "program/piece.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {
namespace {

// One way in which a value of the step lies on this rank.
struct Version {
  Layout layout;
  ValueId value = ValueId::None;
  bool is_gathered = false;
  bool is_later = false;
};

class RankStep {
 public:
  RankStep(const ShardedStep& sharded, int64_t rank)
      : sharded_(sharded),
        step_(sharded.step()),
        names_(step_),
        emitter_{
            .block = block_,
            .mesh = sharded.mesh(),
            .rank = rank,
            .phase = Phase::Forward,
            .names = names_},
        versions_(step_.values.size()) {
    block_.first_rank = rank;
    block_.last_rank = rank;
    block_.function.name = step_.name;
  }

  Block build() {
    for (const Input& input : step_.inputs) {
      const Layout& layout = sharded_.resting(input.value);
      const ValueId mine = add_value(
          block_, step_[input.value].name, local(input.value, layout), layout);
      block_.function.inputs.push_back(input);
      block_.function.inputs.back().value = mine;
      add_version(input.value, layout, mine, false);
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (is_moved_for_nobody(step_.nodes[i])) {
        continue;
      }
      emitter_.phase = step_.nodes[i].phase;
      call(i);
      origins_.resize(
          block_.instructions.size(), {.node = static_cast<NodeId>(i)});
    }
    for (size_t i = 0; i < step_.outputs.size(); ++i) {
      const ValueId mine = as(step_.outputs[i].value, sharded_.output(i));
      block_.function.outputs.push_back(step_.outputs[i]);
      block_.function.outputs.back().value = mine;
    }
    origins_.resize(block_.instructions.size());
    return std::move(block_);
  }
  // Of the instructions of the block.
  std::vector<Origin> origins() { return std::move(origins_); }

 private:
  // A parameter that backward was to read, but what was put in the place of its
  // reader does not (the bias of a norm): it need not be gathered.
  bool is_moved_for_nobody(const Node& node) const {
    return is_view(node) &&
           std::all_of(
               node.results.begin(), node.results.end(), [&](ValueId result) {
                 return sharded_.needed(result).empty() &&
                        sharded_.resting(result) !=
                            sharded_.lowering().layouts[index(result)];
               });
  }

  TensorType local(ValueId value, const Layout& layout) const {
    return local_type(step_[value].type, layout, emitter_.mesh, emitter_.rank);
  }

  void add_version(
      ValueId value, Layout layout, ValueId mine, bool is_gathered) {
    versions_[index(value)].push_back(
        {.layout = std::move(layout),
         .value = mine,
         .is_gathered = is_gathered,
         .is_later = is_later(emitter_.phase)});
  }

  Pieces pieces(size_t number, const Assignment& assignment) const {
    const std::vector<Levels>& factors = assignment.factors;
    const Rule& rule = sharded_.rule(number);
    Pieces out;
    for (size_t i = 0; i < factors.size(); ++i) {
      const int64_t whole = rule.factors[i].size;
      const std::vector<Piece> levels =
          pieces_of(emitter_.mesh, factors[i], whole, emitter_.rank);
      Piece piece = {levels.front().start, 1, whole};
      for (const Piece& level : levels) {
        piece.size *= level.size;
      }
      out.push_back(piece);
    }
    return out;
  }

  // The node with the sizes and offsets of the rank's piece; operands and
  // results are still those of the step.
  Node local_node(size_t number, const Pieces& mine) const {
    Node node = step_.nodes[number];
    node.releases.clear();
    node.overwrites = ValueId::None;
    const OpDef* def = find_op(node.op);
    return def == nullptr
               ? node
               : localize(*def, step_, node, sharded_.rule(number), mine);
  }

  void call(size_t number) {
    const Node& whole = step_.nodes[number];
    const Assignment& assignment = sharded_.assignment(number);
    const std::vector<ValueId> read = operands(whole);
    std::vector<ValueId> mine;
    bool is_as_recorded = true;
    for (size_t i = 0; i < read.size(); ++i) {
      const Layout& layout = sharded_.operand(number, i);
      mine.push_back(as(read[i], layout));
      is_as_recorded = is_as_recorded && block_.function[mine.back()].type ==
                                             local(read[i], layout);
    }
    if (splits_windows(sharded_.rule(number), assignment)) {
      call_windowed(number, std::move(mine));
      return;
    }
    if (assignment.ring) {
      const std::vector<ValueId> results = emit_ring(
          emitter_, step_, whole, sharded_.rule(number), assignment, mine);
      for (size_t i = 0; i < results.size(); ++i) {
        finish(number, static_cast<int>(i), whole.results[i], results[i]);
      }
      return;
    }
    const OpDef* def = find_op(whole.op);
    if (reads_memory(whole)) {
      mine.front() = emitter_.laid_out_as(
          mine.front(),
          local(read.front(), sharded_.operand(number, 0)),
          step_[read.front()].name);
      is_as_recorded = true;
    } else if (!is_as_recorded && is_view(whole) && def->sizes_arg >= 0) {
      // Every view of other sizes can be had of that.
      mine.front() =
          emitter_.row_major(mine.front(), block_.function[mine.front()].name);
    }
    const Pieces part = pieces(number, assignment);
    Node node = local_node(number, part);
    if (operands(node).size() == read.size()) {
      set_operands(node, mine);
    } else {
      // Some were dropped, and none of these nodes reads a value twice.
      std::vector<ValueId> now(step_.values.size(), ValueId::None);
      for (size_t i = 0; i < read.size(); ++i) {
        now[index(read[i])] = mine[i];
      }
      replace_operands(node, now);
    }
    std::vector<TensorType> types;
    // The strides of a view with gaps are no arithmetic of those of the whole.
    if (!is_as_recorded ||
        (is_view(whole) && !is_dense(step_[whole.results.front()].type))) {
      types = types_of(block_.function, node);
    }
    std::vector<Layout> made;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = whole.results[i];
      made.push_back(result_layout(
          emitter_.mesh,
          sharded_.rule(number),
          assignment,
          static_cast<int>(i),
          step_[result].type));
      const TensorType type = local(result, made.back());
      if (i >= types.size()) {
        types.push_back(type);
      } else if (types[i].sizes != type.sizes) {
        types[i] = type;
      }
    }
    const std::vector<ValueId> results =
        split_lookup(sharded_.rule(number), part) >= 0
            ? append_lookups(*def, std::move(node), number, part, types, made)
            : append(std::move(node), whole, types, made);
    for (size_t i = 0; i < results.size(); ++i) {
      finish(number, static_cast<int>(i), whole.results[i], results[i]);
    }
  }

  // Neighbours exchange borders for it (emit_halo.h).
  void call_windowed(size_t number, std::vector<ValueId> mine) {
    const Node& whole = step_.nodes[number];
    const Rule& rule = sharded_.rule(number);
    const Assignment& assignment = sharded_.assignment(number);
    WindowedNode windowed = {
        .step = step_,
        .node = whole,
        .rule = rule,
        .assignment = assignment,
        .pieces = pieces(number, assignment),
        .operands = std::move(mine),
        .made = {}};
    for (size_t i = 0; i < whole.results.size(); ++i) {
      windowed.made.push_back(result_layout(
          emitter_.mesh,
          rule,
          assignment,
          static_cast<int>(i),
          step_[whole.results[i]].type));
    }
    const std::vector<ValueId> results =
        emit_windowed(emitter_, borders_, windowed);
    for (size_t i = 0; i < results.size(); ++i) {
      finish(number, static_cast<int>(i), whole.results[i], results[i]);
    }
  }

  std::vector<ValueId> append(
      Node node,
      const Node& whole,
      const std::vector<TensorType>& types,
      const std::vector<Layout>& made) {
    for (size_t i = 0; i < node.results.size(); ++i) {
      node.results[i] =
          add_value(block_, step_[whole.results[i]].name, types[i], made[i]);
    }
    std::vector<ValueId> results = node.results;
    block_.instructions.emplace_back(
        Call{static_cast<NodeId>(block_.function.nodes.size())});
    block_.function.nodes.push_back(std::move(node));
    return results;
  }

  // A looked-up factor is split: several calls (ops/lookup.h).
  std::vector<ValueId> append_lookups(
      const OpDef& def,
      Node node,
      size_t number,
      const Pieces& part,
      const std::vector<TensorType>& types,
      const std::vector<Layout>& made) {
    std::vector<ValueId> results = emitter_.build(
        step_[step_.nodes[number].results.front()].name,
        [&](NodeBuilder& builder) {
          return append_lookup(
              builder,
              def,
              std::move(node),
              types,
              sharded_.rule(number),
              part);
        });
    for (size_t i = 0; i < results.size(); ++i) {
      block_.layouts[index(results[i])] = made[i];
    }
    return results;
  }

  // Joins, averages and reduces what the node has made of the result.
  void finish(size_t number, int result, ValueId value, ValueId mine) {
    const Rule& rule = sharded_.rule(number);
    const Assignment& assignment = sharded_.assignment(number);
    for (const Join& join : joins_of(rule, assignment, result)) {
      mine = emit_join(emitter_, mine, join.axes, join.how);
    }
    mine = average(rule, assignment, result, mine);
    const Layout& made = sharded_.lowering().layouts[index(value)];
    add_version(value, made, mine, false);
    const Layout& resting = sharded_.resting(value);
    if (resting != made) {
      const ValueId rests = as(value, resting);
      // All readers take it from there.
      versions_[index(value)].clear();
      add_version(value, resting, rests, false);
    }
    for (const Layout& layout : sharded_.needed(value)) {
      if (layout.partial.size() < resting.partial.size()) {
        as(value, layout);
      }
    }
  }

  // The mean of a piece is its share of the whole mean after a division by the
  // number of pieces.
  ValueId average(
      const Rule& rule,
      const Assignment& assignment,
      int result,
      ValueId mine) {
    int64_t count = 1;
    for (size_t i = 0; i < rule.factors.size(); ++i) {
      if (rule.factors[i].combine == Combine::Mean &&
          is_summed(rule, static_cast<int>(i), result)) {
        count *= ways(emitter_.mesh, axes_of(assignment.factors[i]));
      }
    }
    if (count == 1) {
      return mine;
    }
    return emitter_.call(
        "aten.div.Scalar",
        {{mine}, {static_cast<double>(count)}},
        like(block_.function[mine].type),
        block_.layouts[index(mine)],
        block_.function[mine].name);
  }

  // A view of what has been moved already, rather than one more move; None when
  // there is no such thing.
  ValueId view_of_moved(ValueId value, const Layout& layout) {
    const NodeId made = step_[value].node;
    if (made == NodeId::None) {
      return ValueId::None;
    }
    const Node& whole = step_.nodes[index(made)];
    const std::vector<ValueId> read = operands(whole);
    if (!is_view(whole) || read.size() != 1 || whole.results.size() != 1) {
      return ValueId::None;
    }
    for (const Version& base : versions_[index(read.front())]) {
      if (!may_use(base)) {
        continue;
      }
      const Rule& rule = sharded_.rule(index(made));
      const std::optional<Assignment> assignment =
          assignment_from(emitter_.mesh, step_, whole, rule, base.layout);
      const bool lies_otherwise =
          reads_memory(whole) &&
          block_.function[base.value].type != local(read.front(), base.layout);
      if (!assignment || lies_otherwise ||
          result_layout(
              emitter_.mesh, rule, *assignment, 0, step_[value].type) !=
              layout) {
        continue;
      }
      Node node = local_node(index(made), pieces(index(made), *assignment));
      set_operands(node, {base.value});
      const std::vector<TensorType> types = types_of(block_.function, node);
      if (types.size() != 1 ||
          types.front().sizes != local(value, layout).sizes) {
        continue;
      }
      return emitter_.call(
          node.op, node.args, types.front(), layout, step_[value].name);
    }
    return ValueId::None;
  }

  // What was gathered in forward is not kept for backward.
  bool may_use(const Version& version) const {
    return !version.is_gathered || !is_later(emitter_.phase) ||
           version.is_later;
  }

  // The value in that layout, moved there if it is nowhere yet.
  ValueId as(ValueId value, const Layout& layout) {
    std::vector<Version>& versions = versions_[index(value)];
    const Version* best = nullptr;
    double least = 0;
    for (const Version& version : versions) {
      if (!may_use(version)) {
        continue;
      }
      if (version.layout == layout) {
        return version.value;
      }
      const bool has_partial = std::all_of(
          layout.partial.begin(), layout.partial.end(), [&](const auto& axis) {
            return contains(version.layout.partial, axis);
          });
      if (!has_partial) {
        continue;
      }
      const double bytes =
          move_bytes(emitter_.mesh, step_[value].type, version.layout, layout);
      if (best == nullptr || bytes <= least) {
        best = &version;
        least = bytes;
      }
    }
    if (best == nullptr || least > 0) {
      const ValueId seen = view_of_moved(value, layout);
      if (seen != ValueId::None) {
        add_version(value, layout, seen, true);
        return seen;
      }
    }
    WEFT_CHECK(
        best != nullptr,
        "%",
        step_[value].name,
        " is nowhere from where ",
        print(layout),
        " can be reached");
    const Layout from = best->layout;
    const ValueId source = best->value;
    const std::vector<MoveStep> steps =
        find_move(emitter_.mesh, step_[value].type, from, layout);
    const bool is_gathered =
        std::any_of(steps.begin(), steps.end(), [](const MoveStep& step) {
          return step.kind == MoveKind::AllGather;
        });
    const bool sums_first =
        !steps.empty() && steps.front().kind == MoveKind::AllReduce;
    const bool is_owned = sums_first && may_take_over(value, from);
    const ValueId moved =
        emit_move(emitter_, source, step_[value].type, steps, layout, is_owned);
    if (is_owned) {
      std::erase_if(versions, [&](const Version& version) {
        return version.value == source;
      });
    }
    // What the source became is all there is.
    add_version(value, layout, moved, is_gathered && !is_owned);
    return moved;
  }

  // Whether nobody reads the partial sum any more once it is summed.
  bool may_take_over(ValueId value, const Layout& from) const {
    const std::vector<Layout>& needed = sharded_.needed(value);
    return step_[value].node != NodeId::None &&
           std::none_of(
               needed.begin(),
               needed.end(),
               [&](const Layout& layout) {
                 return std::any_of(
                     layout.partial.begin(),
                     layout.partial.end(),
                     [&](const std::string& axis) {
                       return contains(from.partial, axis);
                     });
               }) &&
           !sharded_.is_read_again(value);
  }

  const ShardedStep& sharded_;
  const Function& step_;
  Block block_;
  std::vector<Origin> origins_;
  NameTable names_;
  Emitter emitter_;
  Borders borders_;
  // By value of the step.
  std::vector<std::vector<Version>> versions_;
};

}  // namespace

namespace {

void begin_program(Lowering& lowering) {
  lowering.program.name = lowering.graph.name;
  lowering.program.meshes = {lowering.mesh};
  lowering.program.constants = lowering.graph.constants;
}

}  // namespace

void shard(Lowering& lowering) {
  begin_program(lowering);
  const ShardedStep sharded(lowering);
  for (int64_t rank = 0; rank < rank_count(lowering.mesh); ++rank) {
    RankStep step(sharded, rank);
    Block block = step.build();
    add_block(
        lowering.program, lowering.origins, std::move(block), step.origins());
  }
  name_blocks(lowering.program);
}

void shard_alike(Lowering& lowering) {
  begin_program(lowering);
  const ShardedStep sharded(lowering);
  RankStep step(sharded, 0);
  Block block = step.build();
  block.last_rank = rank_count(lowering.mesh) - 1;
  add_block(
      lowering.program, lowering.origins, std::move(block), step.origins());
}

}  // namespace weft
