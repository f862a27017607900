// SPDX-License-Identifier: Apache-2.0
// How one node is computed on the mesh: which axes split each factor of its
// rule, and so where its operands have to lie and where its results come to
// lie.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "ops/rule.h"

#include <string>
#include <vector>

namespace weft {

struct Assignment {
  // One a factor of the rule, outermost first.
  std::vector<Axes> factors;
  // Operands that are partial sums over these are read as they are, and the
  // results are partial sums too: the op is linear.
  Axes carried;

  bool operator==(const Assignment&) const = default;
};

// Where operand `operand` of a value of this type must lie. The partial axes of
// `now`, where it lies, stay as far as they are carried.
Layout operand_layout(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int operand,
    const TensorType& type,
    const Layout& now);

// Where result `result` comes to lie.
Layout result_layout(
    const Mesh& mesh,
    const Rule& rule,
    const Assignment& assignment,
    int result,
    const TensorType& type);

// The axes over which the result has to be joined by another operation than a
// sum (Combine), each with that operation.
struct Join {
  Axes axes;
  Combine how = Combine::Sum;
};
std::vector<Join> joins_of(
    const Rule& rule, const Assignment& assignment, int result);

// The factors that the axes of a layout split in a tensor whose dims the rule
// gives, in the order of dims and axes.
struct Suggestion {
  std::string axis;
  int factor = 0;
};
std::vector<Suggestion> suggest(
    const Mesh& mesh,
    const Rule& rule,
    const std::vector<DimFactors>& dims,
    const TensorType& type,
    const Layout& layout);

// Whether the factor can be split over the axes: it may be, no piece is empty,
// and pieces of a mean are equal.
bool can_split(
    const Mesh& mesh, const Rule& rule, int factor, const Axes& axes);

}  // namespace weft
