// SPDX-License-Identifier: Apache-2.0
// Layouts begin as a plain split of some dim of some value, and spread through
// the rules of nodes to what they read and make: so a fused weight learns from
// the heads behind it that it is three matrices.
#include "search/layout_space.h"

#include "base/error.h"
#include "base/text.h"
#include "lower/move.h"
#include "lower/pass.h"
#include "ops/op_def.h"
#include "plan/name_patterns.h"
#include "profile/signatures.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

namespace weft {
namespace {

// Of a value, and of a node: more of them are of no use to anybody.
constexpr size_t kMostLayouts = 10;
constexpr size_t kMostSplits = 16;
// A dim that does not divide is split where pieces are that large, so that all
// ranks have nearly as much.
constexpr int64_t kUnevenPiece = 64;
// As in propagate_layouts.cpp: operations an element up to which an operator is
// expanded rather than its operand gathered.
constexpr int64_t kExpandedOperations = 32;

class SpaceFinder {
 public:
  SpaceFinder(
      LaidOutStep base,
      const Mesh& mesh,
      const Axis& axis,
      const CountOfNode& count_of)
      : assignments_(std::move(base.assignments)) {
    out_.mesh = mesh;
    out_.mesh.axes.push_back(axis);
    out_.axis = axis.name;
    out_.graph = std::move(base.graph);
    out_.base = std::move(base.resting);
    for (const Node& node : step().nodes) {
      counts_.push_back(count_of(step()[node.results.front()].name));
    }
    count_values();
  }

  LayoutSpace run() {
    find_classes();
    find_readings();
    find_replacing();
    spread();
    find_options();
    find_resting();
    return std::move(out_);
  }

 private:
  const Function& step() const { return out_.step(); }

  // A factor of a node that the axis splits.
  struct FactorSplit {
    int factor = 0;
    Levels levels;
    bool operator==(const FactorSplit&) const = default;
  };

  // --- Classes.

  // A value is there as often as its node; an input, as its first reader.
  void count_values() {
    out_.value_counts.assign(step().values.size(), 0);
    for (size_t i = 0; i < step().nodes.size(); ++i) {
      for (const ValueId result : step().nodes[i].results) {
        out_.value_counts[index(result)] = counts_[i];
      }
      for_each_operand(step().nodes[i], [&](ValueId read) {
        double& count = out_.value_counts[index(read)];
        count = count == 0 ? counts_[i] : count;
      });
    }
  }

  void find_classes() {
    std::map<std::string, size_t> known_nodes;
    std::map<std::string, size_t> known_values;
    const std::vector<int32_t> alike = signatures(step());
    out_.class_of_value.resize(step().values.size());
    class_of_node_.resize(step().nodes.size());
    const auto add_value = [&](ValueId value, const std::string& key) {
      const auto [at, is_new] =
          known_values.try_emplace(key, out_.values.size());
      if (is_new) {
        out_.values.push_back({.value = value, .options = {}});
      }
      out_.class_of_value[index(value)] = at->second;
    };
    for (const Input& input : step().inputs) {
      const Value& value = step()[input.value];
      add_value(
          input.value,
          cat("input ",
              name(input.kind),
              " ",
              layer_pattern(value.name),
              " ",
              print(value.type),
              print(out_.base[index(input.value)])));
    }
    for (size_t i = 0; i < step().nodes.size(); ++i) {
      const Node& node = step().nodes[i];
      const std::string key =
          cat(alike[i],
              " ",
              name(node.phase),
              " ",
              layer_pattern(step()[node.results.front()].name));
      const auto [at, is_new] = known_nodes.try_emplace(key, out_.nodes.size());
      for (size_t k = 0; k < node.results.size(); ++k) {
        add_value(node.results[k], cat(key, " result ", k));
      }
      if (is_new) {
        LayoutSpace::NodeClass& mine = out_.nodes.emplace_back();
        mine.node = static_cast<NodeId>(i);
        for (const ValueId result : node.results) {
          mine.results.push_back(out_.class_of_value[index(result)]);
        }
        rules_.push_back(rule_of(step(), node));
      }
      out_.nodes[at->second].count += counts_[i];
      class_of_node_[i] = at->second;
    }
  }

  void find_readings() {
    using Key =
        std::pair<std::pair<size_t, bool>, std::vector<LayoutSpace::Reader>>;
    std::map<std::pair<ValueId, bool>, std::vector<LayoutSpace::Reader>> all;
    for (size_t i = 0; i < step().nodes.size(); ++i) {
      const Node& node = step().nodes[i];
      const std::vector<ValueId> read = operands(node);
      for (size_t k = 0; k < read.size(); ++k) {
        all[{read[k], is_later(node.phase)}].push_back({class_of_node_[i], k});
        sites_.insert(
            {class_of_node_[i], k, out_.class_of_value[index(read[k])]});
      }
    }
    std::map<Key, double> counts;
    for (auto& [of, readers] : all) {
      std::sort(readers.begin(), readers.end());
      readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
      counts[{{out_.class_of_value[index(of.first)], of.second}, readers}] +=
          out_.value_counts[index(of.first)];
    }
    for (const auto& [key, count] : counts) {
      out_.readings.push_back(
          {.value = key.first.first,
           .is_later = key.first.second,
           .readers = key.second,
           .count = count});
    }
  }

  void find_replacing() {
    std::map<std::pair<size_t, size_t>, double> counts;
    std::unordered_map<std::string, ValueId> inputs;
    const auto key_of = [](std::string_view kind, const std::string& key) {
      return cat(kind, " ", key);
    };
    for (const Input& input : step().inputs) {
      for (const std::string& key : input.keys) {
        inputs.emplace(key_of(name(input.kind), key), input.value);
      }
    }
    for (const Output& output : step().outputs) {
      const std::string_view kind = output.kind == OutputKind::Gradient
                                        ? name(InputKind::Parameter)
                                        : name(output.kind);
      const auto at = inputs.find(key_of(kind, output.key));
      if (at != inputs.end() &&
          step()[at->second].type.sizes == step()[output.value].type.sizes) {
        counts[{
            out_.class_of_value[index(output.value)],
            out_.class_of_value[index(at->second)]}] +=
            out_.value_counts[index(output.value)];
      }
    }
    for (const auto& [pair, count] : counts) {
      out_.replacing.push_back(
          {.value = pair.first, .input = pair.second, .count = count});
    }
  }

  // --- Layouts that spread.

  const TensorType& type_of(size_t value_class) const {
    return step()[out_.values[value_class].value].type;
  }
  const Layout& base_of(size_t value_class) const {
    return out_.base[index(out_.values[value_class].value)];
  }

  // The layout with one more dim split over the axis; none where that leaves
  // too little.
  std::optional<Layout> plain_split(size_t value_class, size_t dim) const {
    const TensorType& type = type_of(value_class);
    Layout layout = base_of(value_class);
    Levels& levels = layout.dims[dim];
    if (levels.empty()) {
      levels = split_over({out_.axis});
    } else {
      levels.back().axes.push_back(out_.axis);
    }
    const int64_t size =
        levels.back().size == 0 ? type.sizes[dim] : levels.back().size;
    const int64_t pieces = ways(out_.mesh, levels.back().axes);
    if (!divides(out_.mesh, levels.back().axes, size) &&
        size < kUnevenPiece * pieces) {
      return std::nullopt;
    }
    return canonical(layout, type, out_.mesh);
  }

  void spread() {
    splits_.resize(out_.nodes.size());
    layouts_.resize(out_.values.size());
    for (size_t i = 0; i < out_.values.size(); ++i) {
      for (size_t dim = 0; dim < type_of(i).sizes.size(); ++dim) {
        if (const auto layout = plain_split(i, dim)) {
          add_layout(i, *layout);
        }
      }
    }
    // Where each value is read and made, as the places of a rule.
    at_values_.resize(out_.values.size());
    for (const auto& [node, operand, value] : sites_) {
      at_values_[value].push_back(
          {node, {.in_result = false, .tensor = static_cast<int>(operand)}});
    }
    for (size_t i = 0; i < out_.nodes.size(); ++i) {
      for (size_t k = 0; k < out_.nodes[i].results.size(); ++k) {
        at_values_[out_.nodes[i].results[k]].push_back(
            {i, {.in_result = true, .tensor = static_cast<int>(k)}});
      }
    }
    std::vector<std::vector<std::pair<size_t, size_t>>> operand_classes(
        out_.nodes.size());
    for (const auto& [node, operand, value] : sites_) {
      operand_classes[node].push_back({operand, value});
    }
    while (!fresh_.empty()) {
      const auto [value, layout] = fresh_.back();
      fresh_.pop_back();
      for (const auto& [node, place] : at_values_[value]) {
        for (const FactorSplit& split : splits_by(node, place, value, layout)) {
          spread_from(node, split, operand_classes[node]);
        }
      }
    }
  }

  void add_layout(size_t value_class, const Layout& layout) {
    std::vector<Layout>& all = layouts_[value_class];
    if (all.size() < kMostLayouts &&
        std::find(all.begin(), all.end(), layout) == all.end()) {
      all.push_back(layout);
      fresh_.emplace_back(value_class, layout);
    }
  }

  // What the layout of one of its tensors says of the node's factors: news.
  std::vector<FactorSplit> splits_by(
      size_t node_class,
      TensorPlace place,
      size_t value_class,
      const Layout& layout) {
    const Node& node = node_of(node_class);
    const Rule& rule = rules_[node_class];
    std::vector<FactorSplit> news;
    for (Suggestion& one :
         suggest(out_.mesh, rule, place, type_of(value_class), layout)) {
      if (!contains(axes_of(one.levels), out_.axis) ||
          !agrees(node_class, one.factor, one.levels)) {
        continue;
      }
      FactorSplit split = {one.factor, std::move(one.levels)};
      std::vector<FactorSplit>& all = splits_[node_class];
      const bool can =
          can_split(
              out_.mesh, step(), node, rule, split.factor, split.levels) ||
          can_expand(node, rule, split);
      if (can && all.size() < kMostSplits &&
          std::find(all.begin(), all.end(), split) == all.end()) {
        all.push_back(split);
        news.push_back(std::move(split));
      }
    }
    return news;
  }

  // Whether the other axes split the factor as they did.
  bool agrees(size_t node_class, int factor, const Levels& levels) const {
    Levels others = levels;
    for (Level& level : others) {
      std::erase(level.axes, out_.axis);
    }
    std::erase_if(others, [&](const Level& level) {
      return level.size == 0 && level.axes.empty();
    });
    const int64_t size =
        rules_[node_class].factors[static_cast<size_t>(factor)].size;
    const Levels& mine = assignments_[index(out_.nodes[node_class].node)]
                             .factors[static_cast<size_t>(factor)];
    return (others.empty() ? others : canonical(others, size, out_.mesh)) ==
           mine;
  }

  bool can_expand(
      const Node& node, const Rule& rule, const FactorSplit& split) const {
    const OpDef* def = find_op(node.op);
    int64_t largest = 1;
    for_each_operand(node, [&](ValueId value) {
      largest = std::max(largest, element_count(step()[value].type));
    });
    return def != nullptr && def->expand != nullptr &&
           rule.factors[static_cast<size_t>(split.factor)].kind ==
               FactorKind::Whole &&
           split.levels.size() == 1 &&
           flops_of(step(), node) <= kExpandedOperations * largest;
  }

  const Node& node_of(size_t node_class) const {
    return step().nodes[index(out_.nodes[node_class].node)];
  }

  Assignment assignment_of(size_t node_class, const FactorSplit& split) const {
    Assignment out = assignments_[index(out_.nodes[node_class].node)];
    out.factors[static_cast<size_t>(split.factor)] = split.levels;
    return out;
  }

  void spread_from(
      size_t node_class,
      const FactorSplit& split,
      const std::vector<std::pair<size_t, size_t>>& operand_classes) {
    const Assignment assignment = assignment_of(node_class, split);
    const Rule& rule = rules_[node_class];
    const auto add = [&](size_t value, Layout layout) {
      layout.partial = base_of(value).partial;
      if (contains(axes_of(layout), out_.axis)) {
        add_layout(value, layout);
      }
    };
    for (const auto& [operand, value] : operand_classes) {
      add(value,
          operand_layout(
              out_.mesh,
              rule,
              assignment,
              static_cast<int>(operand),
              type_of(value),
              base_of(value)));
    }
    const std::vector<size_t>& results = out_.nodes[node_class].results;
    for (size_t k = 0; k < results.size(); ++k) {
      add(results[k],
          result_layout(
              out_.mesh,
              rule,
              assignment,
              static_cast<int>(k),
              type_of(results[k])));
    }
  }

  // --- Options.

  void find_options() {
    std::vector<bool> may_be_partial(out_.values.size(), false);
    for (size_t i = 0; i < out_.nodes.size(); ++i) {
      add_option(i, assignments_[index(out_.nodes[i].node)], {});
      for (const FactorSplit& split : splits_[i]) {
        const Assignment assignment = assignment_of(i, split);
        const bool is_whole =
            rules_[i].factors[static_cast<size_t>(split.factor)].kind ==
            FactorKind::Whole;
        add_option(i, assignment, {});
        if (is_whole) {
          NodeOption& option = out_.nodes[i].options.back();
          option.expanded_factor = split.factor;
          for (Layout& made : option.makes) {
            std::erase(made.partial, out_.axis);
          }
        }
      }
      add_carried(i, may_be_partial);
      const LayoutSpace::NodeClass& mine = out_.nodes[i];
      for (size_t k = 0; k < mine.results.size(); ++k) {
        for (const NodeOption& option : mine.options) {
          if (contains(option.makes[k].partial, out_.axis)) {
            may_be_partial[mine.results[k]] = true;
          }
        }
      }
    }
  }

  // `carried`: by operand, whether it is read as a partial sum over the axis.
  void add_option(
      size_t node_class,
      const Assignment& assignment,
      const std::vector<bool>& carried) {
    const Node& node = node_of(node_class);
    const Rule& rule = rules_[node_class];
    NodeOption option = {.assignment = assignment, .needs = {}, .makes = {}};
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      Layout now = out_.base[index(read[i])];
      if (i < carried.size() && carried[i]) {
        now.partial.push_back(out_.axis);
      }
      option.needs.push_back(operand_layout(
          out_.mesh,
          rule,
          assignment,
          static_cast<int>(i),
          step()[read[i]].type,
          now));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      option.makes.push_back(result_layout(
          out_.mesh,
          rule,
          assignment,
          static_cast<int>(i),
          step()[node.results[i]].type));
    }
    out_.nodes[node_class].options.push_back(std::move(option));
  }

  void add_carried(size_t node_class, const std::vector<bool>& may_be_partial) {
    const Node& node = node_of(node_class);
    const std::vector<ValueId> read = operands(node);
    Assignment assignment = assignments_[index(out_.nodes[node_class].node)];
    assignment.carried.push_back(out_.axis);
    const auto can = [&](size_t operand) {
      return may_be_partial[out_.class_of_value[index(read[operand])]];
    };
    std::vector<bool> carried(read.size(), false);
    switch (linear_of(node)) {
      case Linear::No:
        return;
      case Linear::First:
        if (!read.empty() && can(0)) {
          carried[0] = true;
          add_option(node_class, assignment, carried);
        }
        return;
      case Linear::Each:
        for (size_t i = 0; i < read.size(); ++i) {
          if (can(i)) {
            carried.assign(read.size(), false);
            carried[i] = true;
            add_option(node_class, assignment, carried);
          }
        }
        return;
      case Linear::All:
        for (size_t i = 0; i < read.size(); ++i) {
          if (!can(i)) {
            return;
          }
        }
        if (!read.empty()) {
          carried.assign(read.size(), true);
          add_option(node_class, assignment, carried);
        }
        return;
    }
  }

  // Where it is made, and where someone needs it; inputs are no partial sums.
  void find_resting() {
    const auto add = [&](size_t value, Layout layout) {
      const bool is_partial = contains(layout.partial, out_.axis);
      layout.partial = base_of(value).partial;
      if (is_partial) {
        layout.partial.push_back(out_.axis);
      }
      std::vector<Layout>& all = out_.values[value].options;
      if (std::find(all.begin(), all.end(), layout) == all.end()) {
        all.push_back(std::move(layout));
      }
    };
    for (size_t i = 0; i < out_.values.size(); ++i) {
      add(i, base_of(i));
    }
    for (const LayoutSpace::NodeClass& node : out_.nodes) {
      for (size_t k = 0; k < node.results.size(); ++k) {
        for (const NodeOption& option : node.options) {
          add(node.results[k], option.makes[k]);
        }
      }
    }
    for (const auto& [node, operand, value] : sites_) {
      for (const NodeOption& option : out_.nodes[node].options) {
        if (!contains(option.needs[operand].partial, out_.axis)) {
          add(value, option.needs[operand]);
        }
      }
    }
  }

  const std::vector<Assignment> assignments_;
  LayoutSpace out_;
  // By node.
  std::vector<double> counts_;
  std::vector<size_t> class_of_node_;
  // By node class.
  std::vector<Rule> rules_;
  std::vector<std::vector<FactorSplit>> splits_;
  // Class of a node, operand, class of what it reads there.
  std::set<std::tuple<size_t, size_t, size_t>> sites_;
  // By class of a value: the nodes that have it, and as which tensor.
  std::vector<std::vector<std::pair<size_t, TensorPlace>>> at_values_;
  // By class of a value, split over the axis.
  std::vector<std::vector<Layout>> layouts_;
  // Those that have not spread yet.
  std::vector<std::pair<size_t, Layout>> fresh_;
};

}  // namespace

LayoutSpace layout_space(
    LaidOutStep base,
    const Mesh& mesh,
    const Axis& axis,
    const CountOfNode& count_of) {
  return SpaceFinder(std::move(base), mesh, axis, count_of).run();
}

}  // namespace weft
