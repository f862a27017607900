// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "ops/rule.h"

#include <string>
#include <vector>

namespace weft {

// For one node: which axes split each factor of its rule.
class FactorAxes {
 public:
  FactorAxes(
      const Mesh& mesh,
      const Function& function,
      const Node& node,
      const Rule& rule);

  // Splits the factors of a dim of `value` by `axes`. Throws UserError when the
  // factor must stay whole, is split otherwise already, does not divide, or
  // when an axis already splits another factor.
  void split(ValueId value, const DimFactors& factors, const Axes& axes);

  bool is_split(const DimFactors& factors) const;
  // The axes of a dim. Throws UserError when its pieces would not be
  // contiguous.
  Axes axes_of(const DimFactors& factors) const;
  // The axes over which result `result` is a partial sum. Throws UserError for
  // another combination than a sum or a mean.
  Axes partial_axes(int result) const;

  // One a factor.
  const std::vector<Axes>& all() const { return axes_; }

  // "[%name = op] message", for errors about this node.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void split_factor(ValueId value, int factor, const std::string& axis);

  const Mesh& mesh_;
  const Function& function_;
  const Node& node_;
  const Rule& rule_;
  std::vector<Axes> axes_;
};

}  // namespace weft
