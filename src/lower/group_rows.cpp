// SPDX-License-Identifier: Apache-2.0
// Rows that the step sorts by expert (ops/sorted_rows.h) are brought together
// sample by sample instead, and for each group of experts by itself:
//
//   %sorted, %order = aten.sort(%ids)
//   %x = aten.index.Tensor(%tokens, [%order // 2])
//   %y = aten._grouped_mm(%x, %matrices, %ends)
//
//   %rows, %ends = weft.expert_rows(%ids as [samples, choices], ...)
//   %x = weft.take_rows(%tokens as [samples, tokens, width], %rows // 2)
//   %y = weft.grouped_mm(%x, %matrices, %ends)
//
// Sorting needs the choices of all samples, and then every rank would compute
// all rows. So do the products, of which no rank can do a part. Of what this
// makes, samples can be split (over ranks and in time), and groups of experts,
// as the plan splits their matrices.
//
// How many rows fall to a group is known when the step runs, and sizes are
// known before: each group has room for all choices of every sample, or for as
// many as the plan says (`seats`). Only the products pass over rows that are
// not in use (docs/decisions/0027).
#include "base/error.h"
#include "lower/pass.h"
#include "ops/call.h"
#include "ops/node_builder.h"
#include "ops/op_def.h"
#include "ops/sorted_rows.h"
#include "ops/split.h"
#include "plan/pattern_index.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace weft {
namespace {

// How the rows of one sort are grouped.
struct Grouping {
  const SortedRows* from = nullptr;
  int64_t samples = 1;
  int64_t groups = 1;
  // Room for so many times an even share; 0: for all.
  int64_t shares = 0;
  // Over which the matrices' experts are split.
  Axes axes = {};
  // Once made: by how many choices share a row, which row each place holds.
  std::map<int64_t, ValueId> rows = {};
  ValueId ends = ValueId::None;

  int64_t choices() const { return from->choices / samples; }
  // Of every sample, in each group.
  int64_t seats() const {
    const int64_t even = (choices() + groups - 1) / groups;
    return shares == 0 ? choices() : std::min(choices(), shares * even);
  }
  // Of a sample, each of which makes some choices.
  int64_t tokens() const {
    int64_t most = 1;
    for (const RowNode& row : from->nodes) {
      most = std::max(most, row.share);
    }
    return choices() / most;
  }
  int64_t all_rows() const { return groups * samples * seats(); }
};

Dims with_front(Dims sizes, const Dims& front) {
  sizes.erase(sizes.begin());
  sizes.insert(sizes.begin(), front.begin(), front.end());
  return sizes;
}

class RowGrouping {
 public:
  explicit RowGrouping(Lowering& lowering)
      : lowering_(lowering),
        step_(*find_function(lowering.graph, "step")),
        decisions_(lowering.plan.decisions),
        all_(sorted_rows(step_, lowering.memo->rules())),
        builder_(step_) {}

  void run() {
    if (all_.empty()) {
      return;
    }
    find_batch();
    plan_groups();
    rewrite();
    drop_unused();
    renumber(step_);
  }

 private:
  // --- What is split.

  void find_batch() {
    for (const Input& input : step_.inputs) {
      const TensorType& type = step_[input.value].type;
      if (input.kind != InputKind::Batch || type.sizes.empty()) {
        continue;
      }
      batch_ = type.sizes.front();
      const Decision* decision =
          decision_for(lowering_.plan, decisions_, step_[input.value].name);
      if (decision != nullptr) {
        batch_axes_ =
            axes_of(only_on(decision->layout, lowering_.mesh).dims.front());
      }
      return;
    }
  }

  void plan_groups() {
    groupings_.reserve(all_.size());
    for (const SortedRows& one : all_) {
      Grouping grouping = {.from = &one, .shares = lowering_.plan.seats};
      grouping.samples = samples_of(one);
      split_experts(grouping);
      groupings_.push_back(std::move(grouping));
    }
    for (Grouping& grouping : groupings_) {
      sorts_.emplace(grouping.from->sort, &grouping);
      for (const RowNode& row : grouping.from->nodes) {
        rows_.emplace(row.node, std::pair(&grouping, &row));
      }
    }
  }

  // Parts of all rows that have the batch in front.
  int64_t samples_of(const SortedRows& one) const {
    const bool divides = std::all_of(
        one.nodes.begin(), one.nodes.end(), [&](const RowNode& row) {
          return one.choices / row.share % batch_ == 0;
        });
    return divides ? batch_ : 1;
  }

  // The parameter of which it is a view or a copy with the same first dim.
  ValueId parameter_of(ValueId value) {
    while (step_[value].node != NodeId::None) {
      const Node& node = step_.nodes[index(step_[value].node)];
      const std::vector<ValueId> read = operands(node);
      if (read.size() != 1 || node.results.size() != 1) {
        return ValueId::None;
      }
      const Rule& rule = lowering_.memo->rules().rule(step_, node);
      if (rule.results.front().empty() || rule.operands.front().empty() ||
          rule.results.front().front().size() != 1 ||
          rule.results.front().front() != rule.operands.front().front()) {
        return ValueId::None;
      }
      value = read.front();
    }
    return value;
  }

  void split_experts(Grouping& grouping) {
    std::optional<Axes> axes;
    for (const RowNode& row : grouping.from->nodes) {
      if (row.use != RowUse::Product) {
        continue;
      }
      const ValueId matrices = operands(step_.nodes[row.node])[1];
      if (grouping.from->rows.contains(matrices)) {
        continue;
      }
      const ValueId parameter = parameter_of(matrices);
      const Decision* decision =
          parameter == ValueId::None
              ? nullptr
              : decision_for(lowering_.plan, decisions_, step_[parameter].name);
      const Axes here =
          decision == nullptr
              ? Axes{}
              : axes_of(only_on(
                            decision->compute.value_or(decision->layout),
                            lowering_.space)
                            .dims.front());
      if (axes && *axes != here) {
        return;
      }
      axes = here;
    }
    const int64_t count = axes ? ways(lowering_.space, *axes) : 1;
    if (count > 1 && grouping.from->experts % count == 0 &&
        grouping.samples % ways(lowering_.mesh, batch_axes_) == 0) {
      grouping.groups = count;
      grouping.axes = *axes;
    }
  }

  // --- The nodes.

  void rewrite() {
    if (std::any_of(
            groupings_.begin(), groupings_.end(), [](const Grouping& one) {
              return one.all_rows() != one.from->choices;
            })) {
      whole_ = step_;
    }
    const std::vector<Node> before = std::exchange(step_.nodes, {});
    now_.resize(step_.values.size());
    for (size_t i = 0; i < now_.size(); ++i) {
      now_[i] = static_cast<ValueId>(i);
    }
    for (size_t i = 0; i < before.size(); ++i) {
      Node node = before[i];
      replace_operands(node, now_);
      // Of the recorded run; lowering frees by itself.
      node.releases.clear();
      node.overwrites = ValueId::None;
      const auto row = rows_.find(i);
      if (row == rows_.end()) {
        builder_.keep(std::move(node));
      } else if (row->second.second->use == RowUse::Plain) {
        keep_plain(
            *row->second.first,
            *row->second.second,
            before[i],
            std::move(node));
      } else {
        builder_.begin(before[i]);
        const ValueId made =
            group(*row->second.first, *row->second.second, node);
        for_each_operand(
            node, [&](ValueId value) { replaced_.push_back(value); });
        stand_for(before[i].results.front(), made);
      }
      if (const auto sort = sorts_.find(i); sort != sorts_.end()) {
        builder_.begin(before[i]);
        make_rows(*sort->second);
      }
    }
    for (Output& output : step_.outputs) {
      output.value = now_[index(output.value)];
    }
    for (auto& [value, layout] : decided_) {
      lowering_.reads.push_back(
          {.pattern = step_[value].name, .layout = std::move(layout)});
    }
  }

  void stand_for(ValueId old, ValueId made) {
    for (size_t k = now_.size(); k < step_.values.size(); ++k) {
      now_.push_back(static_cast<ValueId>(k));
    }
    now_[index(old)] = made;
    // Plans and messages know it by this name.
    std::swap(step_[old].name, step_[made].name);
  }

  ValueId view(ValueId value, const Dims& sizes) {
    return builder_.type(value).sizes == sizes
               ? value
               : builder_.call("aten.view", {{value}, to_arg(sizes)});
  }

  void make_rows(Grouping& grouping) {
    const SortedRows& from = *grouping.from;
    const ValueId ids =
        view(now_[index(from.ids)], {grouping.samples, grouping.choices()});
    Node node;
    node.op = "weft.expert_rows";
    node.args = {
        {ids},
        {from.experts / grouping.groups},
        {grouping.groups},
        {grouping.seats()}};
    const std::vector<TensorType> types = types_of(step_, node);
    const std::vector<ValueId> made = builder_.call(std::move(node), types);
    grouping.ends = made[1];
    for (const RowNode& row : from.nodes) {
      ValueId& rows =
          grouping.rows.try_emplace(row.share, ValueId::None).first->second;
      if (rows == ValueId::None && row.share == 1) {
        rows = made[0];
      } else if (rows == ValueId::None) {
        Node divide;
        divide.op = "aten.div.Tensor_mode";
        divide.args = {{made[0]}, {row.share}};
        set_option(divide, "rounding_mode", {std::string("floor")});
        rows =
            builder_.call(std::move(divide), {builder_.type(made[0])}).front();
      }
    }
    for (size_t k = now_.size(); k < step_.values.size(); ++k) {
      now_.push_back(static_cast<ValueId>(k));
    }
  }

  ValueId group(Grouping& grouping, const RowNode& row, const Node& node) {
    switch (row.use) {
      case RowUse::Take:
        return take(grouping, row);
      case RowUse::Add:
        return add(grouping, row);
      case RowUse::Product:
        return product(grouping, operands(node)[0], operands(node)[1]);
      case RowUse::TakeGroup:
        return take_group(grouping, now_[index(row.from)]);
      case RowUse::AddGroup:
        return add_group(grouping, now_[index(row.from)]);
      case RowUse::Plain:
        break;
    }
    WEFT_CHECK(false, "no way to group rows");
  }

  ValueId take(Grouping& grouping, const RowNode& row) {
    const ValueId from = now_[index(row.from)];
    const Dims sizes = builder_.type(from).sizes;
    const ValueId samples = view(
        from,
        with_front(
            sizes, {grouping.samples, sizes.front() / grouping.samples}));
    const ValueId made = builder_.call(
        "weft.take_rows", {{samples}, {grouping.rows.at(row.share)}});
    place_rows(grouping, made);
    return made;
  }

  ValueId add(Grouping& grouping, const RowNode& row) {
    const ValueId from = now_[index(row.from)];
    const int64_t count = grouping.choices() / row.share;
    const ValueId samples = builder_.call(
        "weft.add_rows", {{from}, {grouping.rows.at(row.share)}, {count}});
    place_samples(grouping, samples);
    const ValueId made = view(
        samples,
        with_front(builder_.type(from).sizes, {grouping.samples * count}));
    return row.base == ValueId::None
               ? made
               : builder_.call(
                     "aten.add.Tensor", {{now_[index(row.base)]}, {made}});
  }

  ValueId product(const Grouping& grouping, ValueId a, ValueId b) {
    return builder_.call(
        "weft.grouped_mm",
        {{a}, {b}, {grouping.ends}, {grouping.choices() / grouping.groups}});
  }

  ValueId ones(const Dims& sizes, DType dtype) {
    Node node;
    node.op = "aten.ones";
    node.args = {to_arg(sizes)};
    set_option(node, "dtype", {dtype});
    return builder_.call(std::move(node), {make_type(dtype, sizes)}).front();
  }

  // What an expert has in a table goes to its rows: one times it.
  ValueId take_group(const Grouping& grouping, ValueId table) {
    const TensorType type = builder_.type(table);
    return product(
        grouping,
        ones({grouping.all_rows(), 1}, type.dtype),
        view(table, {type.sizes[0], 1, type.sizes[1]}));
  }

  ValueId add_group(const Grouping& grouping, ValueId values) {
    const TensorType type = builder_.type(values);
    return view(
        product(grouping, ones({1, grouping.all_rows()}, type.dtype), values),
        {grouping.from->experts, type.sizes[1]});
  }

  // Every row by itself, but there may be more rows.
  void keep_plain(
      const Grouping& grouping,
      const RowNode& row,
      const Node& before,
      Node node) {
    const int64_t rows = grouping.all_rows();
    const OpDef* def = find_op(node.op);
    if (rows != grouping.from->choices) {
      const Rule rule = rule_of(*whole_, before);
      Pieces pieces = whole_pieces(rule);
      pieces[static_cast<size_t>(row.factor)].size = rows;
      const Node sized = localize(*def, *whole_, before, rule, pieces);
      node.op = sized.op;
      node.args = sized.args;
      node.options = sized.options;
      replace_operands(node, now_);
    }
    const std::vector<TensorType> types = types_of(step_, node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      TensorType& type = step_[node.results[i]].type;
      Dims sizes = type.sizes;
      sizes[static_cast<size_t>(grouping.from->rows.at(before.results[i]))] =
          rows;
      type = i < types.size() ? types[i] : with_sizes(type, std::move(sizes));
    }
    builder_.keep(std::move(node));
  }

  // Rows lie with their experts, and else with their samples: what is split
  // over the experts' axes beside others is whole there.
  void place_rows(const Grouping& grouping, ValueId value) {
    if (grouping.groups == 1) {
      return;
    }
    Levels levels = {{grouping.groups, grouping.axes}};
    int64_t rest = grouping.samples;
    for (const std::string& axis : batch_axes_) {
      const int64_t size = ways(lowering_.mesh, {axis});
      const bool is_taken =
          std::find(grouping.axes.begin(), grouping.axes.end(), axis) !=
          grouping.axes.end();
      levels.push_back({size, is_taken ? Axes{} : Axes{axis}});
      rest /= size;
    }
    levels.push_back({rest * grouping.seats(), {}});
    decide(value, std::move(levels));
  }

  // What comes of rows lies with its samples again. Where there are more seats
  // than tokens, what ranks have of each token is better added up first: the
  // sum over a token's choices comes next.
  void place_samples(const Grouping& grouping, ValueId value) {
    if (grouping.groups > 1 && grouping.seats() < grouping.tokens()) {
      decide(value, split_over(batch_axes_));
    }
  }

  void decide(ValueId value, Levels levels) {
    Layout layout =
        replicated(static_cast<int>(builder_.type(value).sizes.size()));
    layout.dims.front() = std::move(levels);
    decided_.emplace_back(value, std::move(layout));
  }

  // --- What nobody reads any more.

  void drop_unused() {
    std::vector<int64_t> readers(step_.values.size(), 0);
    std::vector<size_t> maker(step_.values.size(), step_.nodes.size());
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      for_each_operand(
          step_.nodes[i], [&](ValueId value) { ++readers[index(value)]; });
      for (const ValueId result : step_.nodes[i].results) {
        maker[index(result)] = i;
      }
    }
    for (const Output& output : step_.outputs) {
      ++readers[index(output.value)];
    }
    std::vector<bool> is_dead(step_.nodes.size(), false);
    std::vector<size_t> next;
    for (const ValueId value : replaced_) {
      if (maker[index(value)] < step_.nodes.size()) {
        next.push_back(maker[index(value)]);
      }
    }
    while (!next.empty()) {
      const size_t at = next.back();
      next.pop_back();
      const Node& node = step_.nodes[at];
      const bool is_read = std::any_of(
          node.results.begin(), node.results.end(), [&](ValueId value) {
            return readers[index(value)] > 0;
          });
      if (is_dead[at] || is_read || node.phase == Phase::Optimizer) {
        continue;
      }
      is_dead[at] = true;
      for_each_operand(node, [&](ValueId value) {
        --readers[index(value)];
        if (maker[index(value)] < step_.nodes.size()) {
          next.push_back(maker[index(value)]);
        }
      });
    }
    std::vector<Node> kept;
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (!is_dead[i]) {
        kept.push_back(std::move(step_.nodes[i]));
      }
    }
    step_.nodes = std::move(kept);
  }

  Lowering& lowering_;
  Function& step_;
  const PatternIndex decisions_;
  const std::vector<SortedRows> all_;
  NodeBuilder builder_;
  // As it was, where numbers of rows change.
  std::optional<Function> whole_;
  int64_t batch_ = 1;
  Axes batch_axes_;
  std::vector<Grouping> groupings_;
  // By node: that sorts, and that does something with sorted rows.
  std::map<size_t, Grouping*> sorts_;
  std::map<size_t, std::pair<Grouping*, const RowNode*>> rows_;
  // By value, the one that stands for it.
  std::vector<ValueId> now_;
  // How values lie that are made here.
  std::vector<std::pair<ValueId, Layout>> decided_;
  // What nodes read that are gone.
  std::vector<ValueId> replaced_;
};

}  // namespace

void group_rows(Lowering& lowering) {
  if (rank_count(lowering.mesh) > 1) {
    RowGrouping(lowering).run();
  }
}

}  // namespace weft
