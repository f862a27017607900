// SPDX-License-Identifier: Apache-2.0
#include "plan/grid_split.h"

#include "base/error.h"
#include "plan/tensor_split.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft {
namespace {

// Where the channels of a value are, and which axis splits them.
struct Channel {
  Spot spot;
  size_t axis = 0;
};

class GridSplitter {
 public:
  GridSplitter(const StepRules& rules, const std::vector<Axis>& axes)
      : rules_(rules),
        step_(rules.step()),
        axes_(axes),
        channels_(step_.values.size()) {
    for (const Axis& axis : axes) {
      columns_.push_back(
          tensor_split(rules, axis.size, /*vocabulary=*/true).parameters);
    }
  }

  GridSplit run() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].phase != Phase::Forward) {
        continue;
      }
      if (const auto product = product_of(rules_, i)) {
        multiply(i, *product);
      } else if (const int table = table_of(i); table >= 0) {
        look_up(i, table);
      } else {
        pass(i);
      }
    }
    return std::move(grid_);
  }

 private:
  // Of what stands between layers.
  size_t first_channel() const { return axes_.size() - 1; }
  // Over which a product splits what it makes.
  size_t next_channel(size_t axis) const {
    return axes_.size() == 2 ? 1 : 3 - axis;
  }
  // Axes of the tokens beside channels over that axis.
  Axes tokens(size_t channel) const {
    Axes names = {axes_[0].name};
    if (axes_.size() == 3) {
      names.push_back(axes_[3 - channel].name);
    }
    return names;
  }
  bool divides(int64_t size, size_t axis) const {
    return size % axes_[axis].size == 0;
  }
  ValueId operand(size_t node, size_t position) const {
    return operands(step_.nodes[node])[position];
  }

  std::optional<FactorSpot> channel_factor(size_t node, size_t position) const {
    const auto& channel = channels_[index(operand(node, position))];
    return channel ? factor_at(
                         rules_.rule(node),
                         {false, static_cast<int>(position)},
                         channel->spot)
                   : std::nullopt;
  }

  // --- Products.

  void multiply(size_t node, const Product& product) {
    const auto other = static_cast<size_t>(product.other);
    const auto& read = channels_[index(operand(node, other))];
    const size_t from = read ? read->axis : first_channel();
    const size_t to = next_channel(from);
    const auto made = made_factor(node, product, to);
    if (!made) {
      return;
    }
    const ValueId parameter =
        rules_.parameter(operand(node, static_cast<size_t>(product.weight)));
    if (decided_.insert(parameter).second) {
      store_weight(node, product, *made, from, to);
    }
    split_others(node, *made, to);
    make(node, *made, to);
  }

  // What the product makes, in sections where what follows needs them: as it
  // would be split over one axis.
  std::optional<FactorSpot> made_factor(
      size_t node, const Product& product, size_t axis) const {
    const ValueId weight = operand(node, static_cast<size_t>(product.weight));
    const auto& column = columns_[axis][index(rules_.parameter(weight))];
    const auto here = column ? rules_.in_view(weight, *column) : std::nullopt;
    const auto factor =
        here ? factor_at(rules_.rule(node), {false, product.weight}, *here)
             : std::nullopt;
    for (const int each : product.made) {
      if (factor && factor->factor == each) {
        return factor;
      }
    }
    for (const int each : product.made) {
      const int64_t size =
          rules_.rule(node).factors[static_cast<size_t>(each)].size;
      if (divides(size, axis)) {
        return FactorSpot{each, 1, size};
      }
    }
    return std::nullopt;
  }

  void store_weight(
      size_t node,
      const Product& product,
      const FactorSpot& made,
      size_t from,
      size_t to) {
    const Axes rest = {axes_[0].name};
    GridParameter parameter;
    const ValueId view = operand(node, static_cast<size_t>(product.weight));
    parameter.value = rules_.parameter(view);
    const auto column = in_parameter(node, product.weight, made);
    if (!column) {
      return;
    }
    const auto row =
        in_parameter(node, product.weight, contracted(node, product));
    const bool has_row =
        row && divides(row->size, axes_.size() == 2 ? 0 : from);
    if (axes_.size() == 2) {
      parameter.parts.push_back({*column, {axes_[to].name}, {axes_[to].name}});
      if (has_row) {
        parameter.parts.push_back({*row, {}, rest});
      }
    } else {
      Axes stored = {axes_[to].name};
      if (column->size % (axes_[to].size * axes_[0].size) == 0) {
        stored.push_back(axes_[0].name);
      }
      parameter.parts.push_back({*column, {axes_[to].name}, stored});
      if (has_row) {
        parameter.parts.push_back(
            {*row, {axes_[from].name}, {axes_[from].name}});
      }
    }
    grid_.parameters.push_back(std::move(parameter));
  }

  // What is summed over, as the channels of the input lie in it.
  FactorSpot contracted(size_t node, const Product& product) const {
    const auto channel =
        channel_factor(node, static_cast<size_t>(product.other));
    for (const int each : product.contracted) {
      if (channel && channel->factor == each) {
        return *channel;
      }
    }
    const int first = product.contracted.front();
    return {
        first, 1, rules_.rule(node).factors[static_cast<size_t>(first)].size};
  }

  std::optional<Spot> in_parameter(
      size_t node, int position, const FactorSpot& factor) const {
    const auto here = spot_at(rules_.rule(node), {false, position}, factor);
    return here ? rules_.in_parameter(
                      operand(node, static_cast<size_t>(position)), *here)
                : std::nullopt;
  }

  // --- Tables.

  // The position of a parameter of which rows are looked up, or -1.
  int table_of(size_t node) const {
    const Rule& rule = rules_.rule(node);
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    for (size_t o = 0; o < read.size(); ++o) {
      for (size_t f = 0; f < rule.factors.size(); ++f) {
        if (rule.factors[f].kind == FactorKind::Lookup &&
            rules_.parameter(read[o]) != ValueId::None &&
            has_factor(
                rule, {false, static_cast<int>(o)}, static_cast<int>(f))) {
          return static_cast<int>(o);
        }
      }
    }
    return -1;
  }

  void look_up(size_t node, int table) {
    const Rule& rule = rules_.rule(node);
    const size_t axis = first_channel();
    std::optional<FactorSpot> column;
    std::optional<FactorSpot> row;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const auto factor = static_cast<int>(f);
      if (!has_factor(rule, {false, table}, factor)) {
        continue;
      }
      const FactorSpot spot = {factor, 1, rule.factors[f].size};
      if (rule.factors[f].kind == FactorKind::Lookup) {
        row = spot;
      } else if (
          has_factor(rule, {true, 0}, factor) && divides(spot.size, axis)) {
        column = spot;
      }
    }
    if (!column) {
      return;
    }
    const ValueId parameter =
        rules_.parameter(operand(node, static_cast<size_t>(table)));
    const auto columns = in_parameter(node, table, *column);
    if (columns && decided_.insert(parameter).second) {
      GridParameter split = {
          parameter, {{*columns, {axes_[axis].name}, {axes_[axis].name}}}};
      const auto rows = row ? in_parameter(node, table, *row) : std::nullopt;
      if (rows) {
        store_rows(*rows, split);
      }
      grid_.parameters.push_back(std::move(split));
    }
    make(node, *column, axis);
  }

  void store_rows(const Spot& rows, GridParameter& table) const {
    if (axes_.size() == 2) {
      if (rows.size >= axes_[0].size) {
        table.parts.push_back({rows, {}, {axes_[0].name}});
      }
    } else if (rows.size / axes_[1].size / axes_[0].size >= kLeastRows) {
      table.parts.push_back(
          {rows, {axes_[1].name}, {axes_[1].name, axes_[0].name}});
    } else if (rows.size >= axes_[1].size * axes_[0].size) {
      table.parts.push_back({rows, {}, {axes_[1].name, axes_[0].name}});
    }
  }

  // --- What lies between.

  void pass(size_t node) {
    const size_t count = operands(step_.nodes[node]).size();
    for (size_t o = 0; o < count; ++o) {
      const auto factor = channel_factor(node, o);
      const auto& channel = channels_[index(operand(node, o))];
      if (!factor || !channel) {
        continue;
      }
      const size_t axis = channel->axis;
      split_others(node, *factor, axis);
      follow(node, *factor, axis);
      return;
    }
  }

  // Biases and the like.
  void split_others(size_t node, const FactorSpot& factor, size_t axis) {
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    for (size_t o = 0; o < read.size(); ++o) {
      const ValueId parameter = rules_.parameter(read[o]);
      if (parameter == ValueId::None || decided_.contains(parameter)) {
        continue;
      }
      const auto spot = in_parameter(node, static_cast<int>(o), factor);
      if (spot && divides(spot->size, axis)) {
        decided_.insert(parameter);
        grid_.parameters.push_back(
            {parameter, {{*spot, {axes_[axis].name}, {axes_[axis].name}}}});
      }
    }
  }

  void follow(size_t node, const FactorSpot& factor, size_t axis) {
    for (size_t r = 0; r < step_.nodes[node].results.size(); ++r) {
      const auto spot =
          spot_at(rules_.rule(node), {true, static_cast<int>(r)}, factor);
      if (spot) {
        channels_[index(step_.nodes[node].results[r])] = {*spot, axis};
      }
    }
  }

  // A result for which the plan says where it lies.
  void make(size_t node, const FactorSpot& factor, size_t axis) {
    follow(node, factor, axis);
    const ValueId result = step_.nodes[node].results.front();
    if (const auto& channel = channels_[index(result)]) {
      grid_.values.push_back(
          {result, tokens(axis), channel->spot, {axes_[axis].name}});
    }
  }

  const StepRules& rules_;
  const Function& step_;
  const std::vector<Axis>& axes_;
  // By axis, how parameters are split over that one alone.
  std::vector<Spots> columns_;
  std::vector<std::optional<Channel>> channels_;
  std::set<ValueId> decided_;
  GridSplit grid_;
};

}  // namespace

GridSplit grid_split(const StepRules& rules, const std::vector<Axis>& axes) {
  WEFT_CHECK(axes.size() == 2 || axes.size() == 3, "no grid");
  return GridSplitter(rules, axes).run();
}

}  // namespace weft
