// SPDX-License-Identifier: Apache-2.0
#include "lower/assignment.h"

#include "base/error.h"
#include "lower/cut_levels.h"
#include "ops/op_def.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace weft {
namespace {

Levels levels_of(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    const DimFactors& factors,
    int64_t size) {
  Levels levels;
  const bool is_split =
      std::any_of(factors.begin(), factors.end(), [&](int factor) {
        return !assignment.factors[static_cast<size_t>(factor)].empty();
      });
  if (!is_split) {
    return levels;
  }
  int64_t product = 1;
  for (const int factor : factors) {
    const auto i = static_cast<size_t>(factor);
    const int64_t whole = rule.factors[i].size;
    const Levels& mine = assignment.factors[i];
    if (mine.size() <= 1) {
      levels.push_back({whole, axes_of(mine)});
    } else {
      levels.insert(levels.end(), mine.begin(), mine.end());
    }
    product *= whole;
  }
  WEFT_CHECK(product == size, "factors of another size than their dim");
  return canonical(levels, size, mesh);
}

std::vector<Levels> layout_dims(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    TensorPlace place,
    const TensorType& type) {
  const std::vector<DimFactors>& dims = dims_of(rule, place);
  if (assignment.ring && has_factor(dims, assignment.ring->stays) &&
      has_factor(dims, assignment.ring->passes)) {
    Assignment one = assignment;
    one.factors[static_cast<size_t>(assignment.ring->passes)].clear();
    one.ring.reset();
    return layout_dims(mesh, rule, one, place, type);
  }
  std::vector<Levels> out(type.sizes.size());
  for (size_t dim = 0; dim < out.size() && dim < dims.size(); ++dim) {
    const int64_t size = type.sizes[dim];
    if (const HaloDim* halo = find_halo(rule, place, dim)) {
      const Axes axes =
          axes_of(assignment.factors[static_cast<size_t>(halo->factor)]);
      out[dim] =
          axes.empty() ? Levels() : canonical(split_over(axes), size, mesh);
    } else {
      out[dim] = levels_of(mesh, rule, assignment, dims[dim], size);
    }
  }
  return out;
}

// Whether the call depends on where its piece of the factor begins.
bool needs_place(
    const Function& function, const Node& node, const Rule& rule, int factor) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr || def->localize == nullptr) {
    return false;
  }
  const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
  Pieces first = whole_pieces(rule);
  Piece& piece = first[static_cast<size_t>(factor)];
  piece.size = size / 2;
  Pieces second = first;
  second[static_cast<size_t>(factor)].start = size - size / 2;
  return localize(*def, function, node, rule, first) !=
         localize(*def, function, node, rule, second);
}

bool can_look_up(const Node& node) {
  const OpDef* def = find_op(node.op);
  return def != nullptr && def->lookup_operand >= 0;
}

// The smallest `~` dim of the factor.
int64_t least_window_dim(
    const Function& function, const Node& node, const Rule& rule, int factor) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const HaloDim& halo : rule.halos) {
    const auto tensor = static_cast<size_t>(halo.tensor);
    const ValueId value =
        halo.in_result ? node.results[tensor] : operands(node)[tensor];
    if (halo.factor == factor) {
      least = std::min(
          least, function[value].type.sizes[static_cast<size_t>(halo.dim)]);
    }
  }
  return least;
}

bool is_sum(Combine combine) {
  return combine == Combine::Sum || combine == Combine::Mean;
}

}  // namespace

bool has_factor(const std::vector<DimFactors>& dims, int factor) {
  return std::any_of(dims.begin(), dims.end(), [factor](const DimFactors& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

Layout operand_layout(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int operand,
    const TensorType& type,
    const Layout& now) {
  Layout layout;
  layout.dims = layout_dims(
      mesh, rule, assignment, {.in_result = false, .tensor = operand}, type);
  for (const std::string& axis : now.partial) {
    if (std::find(assignment.carried.begin(), assignment.carried.end(), axis) !=
        assignment.carried.end()) {
      layout.partial.push_back(axis);
    }
  }
  return layout;
}

Layout result_layout(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int result,
    const TensorType& type) {
  Layout layout;
  layout.dims = layout_dims(
      mesh, rule, assignment, {.in_result = true, .tensor = result}, type);
  layout.partial = assignment.carried;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const auto factor = static_cast<int>(i);
    const bool is_joined =
        assignment.ring &&
        (factor == assignment.ring->stays || factor == assignment.ring->passes);
    if (!is_joined && is_sum(rule.factors[i].combine) &&
        is_summed(rule, factor, result)) {
      const Axes axes = axes_of(assignment.factors[i]);
      layout.partial.insert(layout.partial.end(), axes.begin(), axes.end());
    }
  }
  return layout;
}

std::vector<Join> joins_of(
    const Rule& rule, const Assignment& assignment, int result) {
  std::vector<Join> joins;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const Combine how = rule.factors[i].combine;
    if (!assignment.factors[i].empty() && !is_sum(how) && how != Combine::Any &&
        is_summed(rule, static_cast<int>(i), result)) {
      joins.push_back({axes_of(assignment.factors[i]), how});
    }
  }
  return joins;
}

std::vector<Suggestion> suggest(
    const Mesh& mesh,
    const Rule& rule,
    TensorPlace place,
    const TensorType& type,
    const Layout& layout) {
  const std::vector<DimFactors>& dims = dims_of(rule, place);
  std::vector<Suggestion> out;
  for (size_t dim = 0; dim < dims.size() && dim < layout.dims.size(); ++dim) {
    if (layout.dims[dim].empty()) {
      continue;
    }
    if (const HaloDim* halo = find_halo(rule, place, dim)) {
      const int64_t steps =
          rule.factors[static_cast<size_t>(halo->factor)].size;
      const Axes axes = axes_of(layout.dims[dim]);
      out.push_back(
          {.factor = halo->factor,
           .levels = canonical(split_over(axes), steps, mesh)});
      continue;
    }
    std::deque<Level> left = explicit_levels(layout.dims[dim], type.sizes[dim]);
    for (const int factor : dims[dim]) {
      const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
      Levels mine;
      int64_t taken = 1;
      while (taken < size && !left.empty()) {
        const int64_t missing = size / taken;
        const bool is_cut_short = left.front().size > missing;
        if (is_cut_short &&
            (size % taken != 0 || !cut_front(left, missing, mesh))) {
          // The factor cannot be split as this is, but by the same axes.
          mine = {{size, left.front().axes}};
          left.clear();
          break;
        }
        taken *= left.front().size;
        mine.push_back(left.front());
        left.pop_front();
      }
      mine = taken == size ? canonical(mine, size, mesh)
                           : split_over(axes_of(mine));
      if (!mine.empty()) {
        out.push_back({.factor = factor, .levels = std::move(mine)});
      }
    }
  }
  return out;
}

bool can_split(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule,
    int factor,
    const Levels& levels) {
  const Factor& what = rule.factors[static_cast<size_t>(factor)];
  const bool is_lookup = what.kind == FactorKind::Lookup;
  const bool is_halo = what.kind == FactorKind::Halo;
  if (what.kind == FactorKind::Whole ||
      ((is_lookup || is_halo) && levels.size() > 1) ||
      (is_lookup && !can_look_up(node)) ||
      (is_halo && least_window_dim(function, node, rule, factor) <
                      ways(mesh, axes_of(levels)))) {
    return false;
  }
  if (levels.size() > 1 && needs_place(function, node, rule, factor)) {
    return false;
  }
  for (const Level& level : levels) {
    const int64_t size = level.size == 0 ? what.size : level.size;
    if (size < ways(mesh, level.axes) ||
        (what.combine == Combine::Mean && !divides(mesh, level.axes, size))) {
      return false;
    }
  }
  return true;
}

std::optional<Assignment> assignment_from(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Layout& operand) {
  const TensorType& type = function[operands(node).front()].type;
  Assignment assignment;
  assignment.factors.resize(rule.factors.size());
  assignment.carried = operand.partial;
  for (const Suggestion& one :
       suggest(mesh, rule, {.in_result = false, .tensor = 0}, type, operand)) {
    if (!can_split(mesh, function, node, rule, one.factor, one.levels)) {
      return std::nullopt;
    }
    assignment.factors[static_cast<size_t>(one.factor)] = one.levels;
  }
  if (operand_layout(mesh, rule, assignment, 0, type, operand) != operand) {
    return std::nullopt;
  }
  return assignment;
}

}  // namespace weft
