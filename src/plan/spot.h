// SPDX-License-Identifier: Apache-2.0
// Following a split through a step by the rules of the op table: the short
// forms (parallel.h) ask where it comes out.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "ops/rule.h"
#include "ops/split.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// What is split of a value: its dim is `sections` parts, and in each of them
// `size` elements (or runs of elements, when there are more) are split.
struct Spot {
  int dim = 0;
  int64_t sections = 1;
  int64_t size = 0;

  bool operator==(const Spot&) const = default;
};

// The same inside one factor of a rule.
struct FactorSpot {
  int factor = 0;
  int64_t sections = 1;
  int64_t size = 0;
};

Spot whole_dim(const TensorType& type, int dim);
// Nothing else is in the dim.
bool is_alone(const Spot& spot, const TensorType& type);

// The factor at which a spot lies. One that reaches over several lies at the
// first of them, and is as small: `size` tells. None when it lies across.
std::optional<FactorSpot> factor_at(
    const Rule& rule, TensorPlace place, const Spot& spot);
// Where the factor's spot lies in an operand or result, if there.
std::optional<Spot> spot_at(
    const Rule& rule, TensorPlace place, const FactorSpot& spot);

bool has_factor(const Rule& rule, TensorPlace place, int factor);

// Splits what the spot tells over `axes`, inside what splits it already. Where
// two spots in one dim differ, pieces must divide evenly.
void split(
    Layout& layout, const TensorType& type, const Spot& spot, const Axes& axes);

// A step with the rules of its nodes.
class StepRules {
 public:
  // `graph` must outlive it.
  explicit StepRules(const Graph& graph);

  const Function& step() const { return step_; }
  const Rule& rule(size_t node) const { return rules_[node]; }
  const std::vector<NodeId>& users(ValueId value) const {
    return users_[index(value)];
  }
  // The parameter or buffer of which it is a view or a copy, or None.
  ValueId parameter(ValueId value) const { return parameter_[index(value)]; }
  // Whether what it holds follows from the batch.
  bool is_from_batch(ValueId value) const { return from_batch_[index(value)]; }

  // For a view or copy of a parameter, where its spot lies in the parameter,
  // and the other way round.
  std::optional<Spot> in_parameter(ValueId value, Spot spot) const;
  std::optional<Spot> in_view(ValueId value, Spot of_parameter) const;

  // For every value, where a dim of some inputs is found again, whatever may be
  // split: `from` has one entry a value, set for those inputs.
  std::vector<std::optional<Spot>> trace(
      std::vector<std::optional<Spot>> from) const;

 private:
  const Function& step_;
  std::vector<Rule> rules_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<ValueId> parameter_;
  std::vector<bool> from_batch_;
};

// A node that multiplies by a parameter, and sums.
struct Product {
  // Positions among the operands.
  int weight = 0;
  int other = 0;
  // Factors of the weight: those summed over, those that only the result has
  // beside it, and those that all three have.
  std::vector<int> contracted;
  std::vector<int> made;
  std::vector<int> shared;
};
std::optional<Product> product_of(const StepRules& rules, size_t node);

}  // namespace weft
