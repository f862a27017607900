// SPDX-License-Identifier: Apache-2.0
// One rank's step: every node with the sizes of its piece, and a collective
// wherever propagate_layouts asks for a sum. Ranks share one block unless a
// node's arguments tell them apart (an offset of a piece).
#include "base/error.h"
#include "lower/factor_axes.h"
#include "lower/pass.h"
#include "ops/kernel.h"
#include "ops/op_def.h"
#include "ops/split.h"
#include "program/piece.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace weft {
namespace {

class Shard {
 public:
  explicit Shard(const Lowering& lowering)
      : lowering_(lowering),
        mesh_(lowering.plan.mesh),
        step_(step_of(lowering.graph)),
        users_(users(step_)),
        in_storage_(step_.values.size()) {
    for (const Value& value : step_.values) {
      names_.insert(value.name);
    }
    find_storages();
    for (const Node& node : step_.nodes) {
      rules_.push_back(rule_of(step_, node));
      factors_.push_back(factor_axes(node, rules_.back()));
    }
  }

  std::vector<Block> blocks() {
    const int64_t ranks = rank_count(mesh_);
    if (same_for_all_ranks()) {
      Block block = build(0);
      block.last_rank = ranks - 1;
      return {std::move(block)};
    }
    std::vector<Block> blocks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Block block = build(rank);
      block.function.name = cat(block.function.name, ".", rank);
      blocks.push_back(std::move(block));
    }
    return blocks;
  }

 private:
  void find_storages() {
    storage_.resize(step_.values.size());
    for (size_t i = 0; i < storage_.size(); ++i) {
      storage_[i] = static_cast<ValueId>(i);
    }
    for (const Node& node : step_.nodes) {
      const std::vector<ValueId> read = operands(node);
      for (const ValueId result : node.results) {
        if (is_view(node) && !read.empty()) {
          storage_[index(result)] = storage_[index(read.front())];
        }
      }
    }
    for (size_t i = 0; i < storage_.size(); ++i) {
      in_storage_[index(storage_[i])].push_back(static_cast<ValueId>(i));
    }
  }

  std::vector<Axes> factor_axes(const Node& node, const Rule& rule) const {
    FactorAxes axes(mesh_, step_, node, rule);
    const auto split = [&](ValueId value, const std::vector<DimFactors>& dims) {
      const Layout& layout = lowering_.layouts[index(value)];
      for (size_t dim = 0; dim < dims.size(); ++dim) {
        axes.split(value, dims[dim], axes_of(layout.dims[dim]));
      }
    };
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      split(read[i], rule.operands[i]);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      split(node.results[i], rule.results[i]);
    }
    return axes.all();
  }

  // With the sizes and offsets of the rank's piece; operands and results are
  // still those of the step.
  Node local_node(size_t number, int64_t rank) const {
    const std::vector<Axes>& axes = factors_[number];
    Node node = step_.nodes[number];
    node.releases.clear();
    node.overwrites = ValueId::None;
    const OpDef* def = find_op(node.op);
    const bool is_split = std::any_of(
        axes.begin(), axes.end(), [](const Axes& a) { return !a.empty(); });
    if (!is_split || def == nullptr) {
      return node;
    }
    const Rule& rule = rules_[number];
    Pieces pieces;
    for (size_t i = 0; i < axes.size(); ++i) {
      pieces.push_back(piece_of(mesh_, axes[i], rule.factors[i].size, rank));
    }
    return localize(*def, step_, node, rule, pieces);
  }

  bool same_for_all_ranks() const {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const OpDef* def = find_op(step_.nodes[i].op);
      if (def == nullptr || def->localize == nullptr) {
        continue;
      }
      const Node first = local_node(i, 0);
      for (int64_t rank = 1; rank < rank_count(mesh_); ++rank) {
        if (local_node(i, rank) != first) {
          return false;
        }
      }
    }
    return true;
  }

  TensorType local(ValueId value) const {
    return local_type(
        step_[value].type, lowering_.layouts[index(value)], mesh_, 0);
  }

  Block build(int64_t rank) {
    Block block;
    block.first_rank = rank;
    block.last_rank = rank;
    block.function.name = step_.name;
    // What stands for each value of the step.
    std::vector<ValueId> now(step_.values.size(), ValueId::None);
    for (const Input& input : step_.inputs) {
      now[index(input.value)] = add_value(
          block,
          step_[input.value].name,
          local(input.value),
          lowering_.layouts[index(input.value)]);
      block.function.inputs.push_back(input);
      block.function.inputs.back().value = now[index(input.value)];
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      Node node = local_node(i, rank);
      replace_operands(node, now);
      call(block, std::move(node), now);
      for (const ValueId result : step_.nodes[i].results) {
        average(block, i, result, now);
        if (lowering_.summed[index(result)]) {
          sum(block, result, now);
        }
      }
    }
    for (const Output& output : step_.outputs) {
      block.function.outputs.push_back(output);
      block.function.outputs.back().value = now[index(output.value)];
    }
    renumber(block);
    return block;
  }

  // Appends the node, whose results are still those of the step.
  void call(Block& block, Node node, std::vector<ValueId>& now) const {
    for (ValueId& result : node.results) {
      const ValueId mine = add_value(
          block,
          step_[result].name,
          local(result),
          lowering_.layouts[index(result)]);
      now[index(result)] = mine;
      result = mine;
    }
    block.instructions.emplace_back(
        Call{static_cast<NodeId>(block.function.nodes.size())});
    block.function.nodes.push_back(std::move(node));
  }

  // A call with one operand and one result like it.
  ValueId call_like(
      Block& block,
      std::string_view op,
      ValueId operand,
      std::vector<Arg> more,
      std::string_view suffix) const {
    Node node;
    node.op = op;
    node.phase = block.function.nodes.back().phase;
    node.args = {{operand}};
    node.args.insert(node.args.end(), more.begin(), more.end());
    const ValueId result = add_value(
        block,
        unique(cat(block.function[operand].name, suffix)),
        like(block.function[operand].type),
        block.layouts[index(operand)]);
    node.results = {result};
    block.instructions.emplace_back(
        Call{static_cast<NodeId>(block.function.nodes.size())});
    block.function.nodes.push_back(std::move(node));
    return result;
  }

  // The mean of a piece is its share of the whole mean after a division by the
  // number of pieces.
  void average(
      Block& block,
      size_t number,
      ValueId value,
      std::vector<ValueId>& now) const {
    const Rule& rule = rules_[number];
    int64_t count = 1;
    for (size_t i = 0; i < rule.factors.size(); ++i) {
      if (rule.factors[i].combine == Combine::Mean &&
          is_summed(rule, static_cast<int>(i), step_[value].result)) {
        count *= ways(mesh_, factors_[number][i]);
      }
    }
    if (count > 1) {
      now[index(value)] = call_like(
          block,
          "aten.div.Scalar",
          now[index(value)],
          {{static_cast<double>(count)}},
          ".share");
    }
  }

  void sum(Block& block, ValueId value, std::vector<ValueId>& now) const {
    ValueId operand = now[index(value)];
    if (needs_copy(value, block.function[operand].type)) {
      operand = call_like(block, "aten.clone", operand, {}, ".copy");
    }
    Start start;
    start.axes = lowering_.layouts[index(value)].partial;
    start.operands = {operand};
    const ValueId result = add_value(
        block,
        unique(cat(step_[value].name, ".sum")),
        block.function[operand].type,
        without_partial(block.layouts[index(operand)], start.axes));
    start.results = {result};
    now[index(value)] = result;
    block.instructions.emplace_back(std::move(start));
    block.instructions.emplace_back(Wait{result});
  }

  // The collective takes over the storage: nobody else may need it later, and
  // every element must be there once.
  bool needs_copy(ValueId value, const TensorType& type) const {
    if (!is_dense(type)) {
      return true;
    }
    const NodeId made = step_[value].node;
    const std::vector<ValueId>& others =
        in_storage_[index(storage_[index(value)])];
    return std::any_of(others.begin(), others.end(), [&](ValueId other) {
      if (other == value || step_[other].node > made) {
        return false;
      }
      const bool is_returned = std::any_of(
          step_.outputs.begin(), step_.outputs.end(), [&](const Output& o) {
            return o.value == other;
          });
      return is_returned || step_[other].node == made ||
             std::any_of(
                 users_[index(other)].begin(),
                 users_[index(other)].end(),
                 [made](NodeId user) { return user > made; });
    });
  }

  std::string unique(std::string name) const {
    while (names_.contains(name)) {
      name += "_";
    }
    return name;
  }

  const Lowering& lowering_;
  const Mesh& mesh_;
  const Function& step_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<ValueId> storage_;
  std::vector<std::vector<ValueId>> in_storage_;
  std::unordered_set<std::string> names_;
  // For every node, its rule and the axes of the rule's factors.
  std::vector<Rule> rules_;
  std::vector<std::vector<Axes>> factors_;
};

}  // namespace

void shard(Lowering& lowering) {
  lowering.program.name = lowering.graph.name;
  lowering.program.mesh = lowering.plan.mesh;
  lowering.program.constants = lowering.graph.constants;
  lowering.program.blocks = Shard(lowering).blocks();
}

}  // namespace weft
