// SPDX-License-Identifier: Apache-2.0
#include "lower/assignment.h"

#include "base/error.h"

#include <algorithm>

namespace weft {
namespace {

Levels levels_of(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    const DimFactors& factors,
    int64_t size) {
  Levels levels;
  int64_t product = 1;
  bool is_split = false;
  for (const int factor : factors) {
    const auto i = static_cast<size_t>(factor);
    levels.push_back({rule.factors[i].size, assignment.factors[i]});
    product *= rule.factors[i].size;
    is_split = is_split || !assignment.factors[i].empty();
  }
  if (!is_split) {
    return {};
  }
  WEFT_CHECK(product == size, "factors of another size than their dim");
  return canonical(levels, size, mesh);
}

std::vector<Levels> dims_of(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    const std::vector<DimFactors>& dims,
    const TensorType& type) {
  std::vector<Levels> out;
  for (size_t dim = 0; dim < type.sizes.size(); ++dim) {
    out.push_back(
        dim < dims.size()
            ? levels_of(mesh, rule, assignment, dims[dim], type.sizes[dim])
            : Levels());
  }
  return out;
}

bool is_sum(Combine combine) {
  return combine == Combine::Sum || combine == Combine::Mean;
}

}  // namespace

Layout operand_layout(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int operand,
    const TensorType& type,
    const Layout& now) {
  Layout layout;
  layout.dims = dims_of(
      mesh,
      rule,
      assignment,
      rule.operands[static_cast<size_t>(operand)],
      type);
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
  layout.dims = dims_of(
      mesh, rule, assignment, rule.results[static_cast<size_t>(result)], type);
  layout.partial = assignment.carried;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    if (is_sum(rule.factors[i].combine) &&
        is_summed(rule, static_cast<int>(i), result)) {
      layout.partial.insert(
          layout.partial.end(),
          assignment.factors[i].begin(),
          assignment.factors[i].end());
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
      joins.push_back({assignment.factors[i], how});
    }
  }
  return joins;
}

std::vector<Suggestion> suggest(
    const Mesh& mesh,
    const Rule& rule,
    const std::vector<DimFactors>& dims,
    const TensorType& type,
    const Layout& layout) {
  std::vector<Suggestion> out;
  for (size_t dim = 0; dim < dims.size() && dim < layout.dims.size(); ++dim) {
    int64_t outer = 1;
    for (const Level& level : layout.dims[dim]) {
      int64_t at = outer;
      for (const std::string& axis : level.axes) {
        // The factor that begins here, or that this lies in.
        int64_t begin = 1;
        for (const int factor : dims[dim]) {
          const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
          if (begin * size > at) {
            out.push_back({axis, factor});
            break;
          }
          begin *= size;
        }
        at *= ways(mesh, {axis});
      }
      outer *= level.size == 0 ? type.sizes[dim] : level.size;
    }
  }
  return out;
}

bool can_split(
    const Mesh& mesh, const Rule& rule, int factor, const Axes& axes) {
  const Factor& what = rule.factors[static_cast<size_t>(factor)];
  const int64_t count = ways(mesh, axes);
  return what.kind == FactorKind::Free && what.size >= count &&
         (what.combine != Combine::Mean || what.size % count == 0);
}

}  // namespace weft
