// SPDX-License-Identifier: Apache-2.0
// A Rule says how the dims of an operator's operands and results line up, in
// the manner of einsum: "m k, k n -> m n". One word is one factor.
//
//   on both sides       may be split; every rank computes its piece
//   missing on the      may be split; each rank gets a partial result, joined
//   right               by the factor's Combine (a sum unless said otherwise)
//   f!                  must stay whole
//   f~                  may be split, but a piece needs its neighbours' borders
//                       (convolution, pooling)
//   f?                  looked up by an index operand (embedding, gather,
//                       scatter): a split gives masked partial sums
//   (a b)               one dim made of two factors, the first the slower one
//   ...                 any leading dims, broadcast against each other
//   1                   a dim of size 1: nothing to split
//   _                   an operand or result that takes no part (whole
//                       everywhere)
//
// Example: attention "b h s k, b h t! k!, b h t! v -> b h s v".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace weft {

enum class FactorKind : uint8_t { Free, Whole, Halo, Lookup };

// How the pieces' results are joined when a split factor is missing on the
// right.
enum class Combine : uint8_t { Sum, Mean, Max, Min, Product };

struct Factor {
  std::string name;
  int64_t size = 1;
  FactorKind kind = FactorKind::Free;
  Combine combine = Combine::Sum;

  bool operator==(const Factor&) const = default;
};

// The factors of one dim as indices into Rule::factors, slowest first; empty
// for a dim with nothing to split.
using DimFactors = std::vector<int>;

struct Rule {
  std::vector<Factor> factors;
  // One entry an operand, in the order of weft::operands(node); one entry a
  // dim.
  std::vector<std::vector<DimFactors>> operands;
  std::vector<std::vector<DimFactors>> results;

  bool operator==(const Rule&) const = default;
};

// Sizes the text of a rule by the types of the node's operands (and of its
// results where a factor is only there). Throws InternalError when the text and
// the node do not fit: an entry of the table is wrong.
Rule rule_from_text(
    std::string_view text,
    const Function& function,
    const Node& node);

// Nothing may be split: what an op without an entry gets.
Rule whole_rule(const Function& function, const Node& node);

bool is_summed(const Rule& rule, int factor);

// "m=8 k=4! , ..." for docs and messages: the text form with sizes.
std::string print(const Rule& rule);

}  // namespace weft
