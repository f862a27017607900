// SPDX-License-Identifier: Apache-2.0
#include "plan/spot.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {
namespace {

int64_t size_of(const Rule& rule, int factor) {
  return rule.factors[static_cast<size_t>(factor)].size;
}

bool has(const std::vector<DimFactors>& dims, int factor) {
  return std::any_of(dims.begin(), dims.end(), [factor](const auto& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

// One operand whose every element comes out once, as it was or converted.
bool is_copy(const Node& node, const Rule& rule) {
  if (operands(node).size() != 1 || node.results.size() != 1) {
    return false;
  }
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const auto factor = static_cast<int>(i);
    if (!has(rule.operands[0], factor) || !has(rule.results[0], factor)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Spot whole_dim(const TensorType& type, int dim) {
  return {dim, 1, type.sizes[static_cast<size_t>(dim)]};
}

bool is_alone(const Spot& spot, const TensorType& type) {
  return spot.sections == 1 &&
         spot.size == type.sizes[static_cast<size_t>(spot.dim)];
}

std::optional<FactorSpot> factor_at(
    const Rule& rule, TensorPlace place, const Spot& spot) {
  int64_t before = 1;
  for (const int factor : dims_of(rule, place)[static_cast<size_t>(spot.dim)]) {
    const int64_t size = size_of(rule, factor);
    if (spot.sections >= before * size) {
      before *= size;
      continue;
    }
    if (spot.sections % before != 0 || size % (spot.sections / before) != 0) {
      return std::nullopt;
    }
    const int64_t sections = spot.sections / before;
    return FactorSpot{factor, sections, std::min(spot.size, size / sections)};
  }
  return std::nullopt;
}

std::optional<Spot> spot_at(
    const Rule& rule, TensorPlace place, const FactorSpot& spot) {
  const std::vector<DimFactors>& dims = dims_of(rule, place);
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    int64_t before = 1;
    for (const int factor : dims[dim]) {
      if (factor == spot.factor) {
        return Spot{static_cast<int>(dim), before * spot.sections, spot.size};
      }
      before *= size_of(rule, factor);
    }
  }
  return std::nullopt;
}

bool has_factor(const Rule& rule, TensorPlace place, int factor) {
  return has(dims_of(rule, place), factor);
}

void split(
    Layout& layout,
    const TensorType& type,
    const Spot& spot,
    const Axes& axes) {
  if (axes.empty()) {
    return;
  }
  const auto dim = static_cast<size_t>(spot.dim);
  const int64_t rest = type.sizes[dim] / (spot.sections * spot.size);
  const Levels wanted = {{spot.sections, {}}, {spot.size, {}}, {rest, {}}};
  Levels& levels = layout.dims[dim];
  if (levels.empty()) {
    levels = wanted;
    levels[1].axes = axes;
    return;
  }
  // What is there may be one of the levels around, as the batch is in a dim of
  // batch and sequence; or the same one.
  for (Level& level : levels) {
    if (level.size == 0) {
      int64_t others = 1;
      for (const Level& other : levels) {
        others *= other.size == 0 ? 1 : other.size;
      }
      level.size = type.sizes[dim] / others;
    }
  }
  int64_t before = 1;
  for (size_t i = 0; i < levels.size(); before *= levels[i++].size) {
    if (before != spot.sections) {
      continue;
    }
    // Whole levels that follow belong to a larger spot.
    while (levels[i].size < spot.size && i + 1 < levels.size() &&
           levels[i + 1].axes.empty()) {
      levels[i].size *= levels[i + 1].size;
      levels.erase(levels.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    Level& level = levels[i];
    if (level.size > spot.size && level.size % spot.size == 0) {
      const Level inner = {level.size / spot.size, {}};
      level.size = spot.size;
      levels.insert(levels.begin() + static_cast<std::ptrdiff_t>(i) + 1, inner);
    }
    if (levels[i].size == spot.size) {
      Axes& all = levels[i].axes;
      all.insert(all.end(), axes.begin(), axes.end());
      return;
    }
  }
  WEFT_CHECK(false, "a split across levels");
}

StepRules::StepRules(const Graph& graph)
    : step_(step_of(graph)),
      users_(weft::users(step_)),
      parameter_(step_.values.size(), ValueId::None),
      from_batch_(step_.values.size()) {
  for (const Input& input : step_.inputs) {
    if (input.kind == InputKind::Parameter || input.kind == InputKind::Buffer) {
      parameter_[index(input.value)] = input.value;
    }
    from_batch_[index(input.value)] = input.kind == InputKind::Batch;
  }
  for (const Node& node : step_.nodes) {
    rules_.push_back(rule_of(step_, node));
    const std::vector<ValueId> read = operands(node);
    const bool is_mine =
        is_copy(node, rules_.back()) || (is_view(node) && read.size() == 1);
    for (const ValueId result : node.results) {
      if (is_mine) {
        parameter_[index(result)] = parameter_[index(read.front())];
      }
      from_batch_[index(result)] =
          std::any_of(read.begin(), read.end(), [this](ValueId value) {
            return from_batch_[index(value)];
          });
    }
  }
}

std::optional<Spot> StepRules::in_parameter(ValueId value, Spot spot) const {
  while (step_[value].node != NodeId::None) {
    const size_t node = index(step_[value].node);
    const TensorPlace result = {true, step_[value].result};
    const auto factor = factor_at(rules_[node], result, spot);
    if (!factor || factor->size != spot.size) {
      return std::nullopt;
    }
    const auto before = spot_at(rules_[node], {false, 0}, *factor);
    if (!before) {
      return std::nullopt;
    }
    spot = *before;
    value = operands(step_.nodes[node]).front();
  }
  return spot;
}

std::optional<Spot> StepRules::in_view(ValueId value, Spot of_parameter) const {
  if (step_[value].node == NodeId::None) {
    return of_parameter;
  }
  const size_t node = index(step_[value].node);
  const auto before =
      in_view(operands(step_.nodes[node]).front(), of_parameter);
  if (!before) {
    return std::nullopt;
  }
  const auto factor = factor_at(rules_[node], {false, 0}, *before);
  return factor ? spot_at(rules_[node], {true, step_[value].result}, *factor)
                : std::nullopt;
}

std::vector<std::optional<Spot>> StepRules::trace(
    std::vector<std::optional<Spot>> from) const {
  for (size_t i = 0; i < step_.nodes.size(); ++i) {
    const std::vector<ValueId> read = operands(step_.nodes[i]);
    for (size_t j = 0; j < read.size(); ++j) {
      const std::optional<Spot>& spot = from[index(read[j])];
      const auto factor =
          spot ? factor_at(rules_[i], {false, static_cast<int>(j)}, *spot)
               : std::nullopt;
      if (!factor) {
        continue;
      }
      for (size_t r = 0; r < step_.nodes[i].results.size(); ++r) {
        std::optional<Spot>& mine = from[index(step_.nodes[i].results[r])];
        if (!mine) {
          mine = spot_at(rules_[i], {true, static_cast<int>(r)}, *factor);
        }
      }
    }
  }
  return from;
}

std::optional<Product> product_of(const StepRules& rules, size_t node) {
  const Function& step = rules.step();
  const Rule& rule = rules.rule(node);
  const std::vector<ValueId> read = operands(step.nodes[node]);
  for (size_t w = 0; w < read.size(); ++w) {
    if (rules.parameter(read[w]) == ValueId::None) {
      continue;
    }
    for (size_t o = 0; o < read.size(); ++o) {
      if (o == w || rules.parameter(read[o]) != ValueId::None) {
        continue;
      }
      Product product;
      product.weight = static_cast<int>(w);
      product.other = static_cast<int>(o);
      for (size_t i = 0; i < rule.factors.size(); ++i) {
        const auto factor = static_cast<int>(i);
        if (rule.factors[i].kind != FactorKind::Free ||
            !has_factor(rule, {false, product.weight}, factor)) {
          continue;
        }
        const bool in_other = has_factor(rule, {false, product.other}, factor);
        const bool in_result = has_factor(rule, {true, 0}, factor);
        if (in_other && in_result) {
          product.shared.push_back(factor);
        } else if (in_result) {
          product.made.push_back(factor);
        } else if (in_other && rule.factors[i].combine == Combine::Sum) {
          product.contracted.push_back(factor);
        }
      }
      if (!product.contracted.empty() && !product.made.empty()) {
        return product;
      }
    }
  }
  return std::nullopt;
}

}  // namespace weft
