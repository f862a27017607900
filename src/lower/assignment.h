// SPDX-License-Identifier: Apache-2.0
// How one node is computed on the mesh: which axes split each factor of its
// rule, and so where its operands have to lie and where its results come to
// lie.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "ops/rule.h"
#include "ops/split.h"

#include <optional>
#include <string>
#include <vector>

namespace weft {

// The factors of OpDef::blocks.
struct Ring {
  int stays = 0;
  int passes = 0;

  bool operator==(const Ring&) const = default;
};

struct Assignment {
  // How each factor of the rule is split, canonical.
  std::vector<Levels> factors;
  // Operands that are partial sums over these are read as they are, and the
  // results are partial sums too: the op is linear.
  Axes carried;
  // Ranks pass blocks round (ring.h): both factors are split over the same
  // axes, an operand with both only by the one that stays, and all results come
  // out whole.
  std::optional<Ring> ring = std::nullopt;

  bool operator==(const Assignment&) const = default;
};

// Whether one of the tensor's dims has the factor.
bool has_factor(const std::vector<DimFactors>& dims, int factor);

// Where operand `operand` of a value of this type must lie. The partial axes of
// `now`, where it lies, stay as far as they are carried. A `~` dim lies in
// pieces as equal as any; what a node needs beyond them is lower/halo.h's.
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

// How a layout splits the factors of a tensor of the rule; in the order of the
// dims.
struct Suggestion {
  int factor = 0;
  Levels levels;
  // Else by what somebody wants of a result.
  bool by_operand = true;
};
std::vector<Suggestion> suggest(
    const Mesh& mesh,
    const Rule& rule,
    TensorPlace place,
    const TensorType& type,
    const Layout& layout);

// How a node of one operand is computed from that operand as it lies; none when
// it cannot be without moving it.
std::optional<Assignment> assignment_from(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Layout& operand);

// Whether the factor of the node can be split so: it may be split at all, no
// piece is empty, neither of the factor nor of a `~` dim, pieces of a mean are
// equal, and pieces whose place matters are contiguous.
bool can_split(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule,
    int factor,
    const Levels& levels);

}  // namespace weft
