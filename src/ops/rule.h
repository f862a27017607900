// SPDX-License-Identifier: Apache-2.0
// A Rule says how the dims of an operator's operands and results line up, in
// the manner of einsum: "m k, k n -> m n". One word is one factor.
//
//   on both sides       may be split; every rank computes its piece
//   missing in a        may be split; that result is a partial one on each
//   result              rank, joined by the factor's Combine: a sum, or as the
//                       text says, `k:mean` `k:max` `k:min` `k:product`
//                       `k:norm`
//   f!                  must stay whole
//   f~                  may be split, but this dim of a piece reaches beyond
//                       the piece's borders (convolution, pooling; see Window)
//   f?                  looked up by an index operand (embedding, gather,
//                       scatter): a split gives masked partial sums
//   f=4                 its size, where operands and results do not give it
//   (a b)               one dim made of two factors, the first the slower one
//   ...                 any dims, one place a term: dims are aligned at the
//                       last one and broadcast against each other; their
//                       factors are called dim0, dim1, ...
//   1                   a dim of size 1: nothing to split
//   ()                  a tensor without dims
//   _                   an operand or result that takes no part (the same
//                       everywhere, whatever is split)
//
// A mark (! ~ ? : =) need only stand once for a factor, but `~` marks one dim.
// A dim of size 1 under a larger factor is broadcast: it has nothing to split.
// Example: attention "b h s k!, b h t! k!, b h t! v -> b h s v".
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class FactorKind : uint8_t { Free, Whole, Halo, Lookup };

// How the pieces' results are joined when a split factor is missing in them.
// The pieces of a Mean have equal sizes; Norm is the root of the sum of
// squares.
enum class Combine : uint8_t { Sum, Mean, Max, Min, Product, Norm, Any };

// What a piece of a `~` factor touches. The factor counts the steps of the
// window; step i touches the elements
//   i * stride - before  ...  i * stride + after
// of a dim marked `~`, and those outside the whole dim are padding. Dims with
// the factor but without the mark have one element a step.
//
// To run a piece on steps [start, start + size): an operand's `~` dim is the
// range of elements that those steps touch, padded with `fill` where it leaves
// the whole; a result's `~` dim comes out as that range, and is added to the
// whole with what lies outside dropped. The op's localize turns its own padding
// off for that dim. With `inside` there is no padding: the range ends where the
// whole does.
struct Window {
  int64_t stride = 1;
  int64_t before = 0;
  int64_t after = 0;
  double fill = 0;
  bool inside = false;

  bool operator==(const Window&) const = default;
};

struct Factor {
  std::string name;
  int64_t size = 1;
  FactorKind kind = FactorKind::Free;
  Combine combine = Combine::Sum;
  // For Halo; the op's rule_of fills it in.
  Window window = {};

  bool operator==(const Factor&) const = default;
};

// The factors of one dim as indices into Rule::factors, slowest first; empty
// for a dim with nothing to split.
using DimFactors = std::vector<int>;

// A dim marked `~`.
struct HaloDim {
  int factor = 0;
  bool in_result = false;
  // Which operand or result, and its dim.
  int tensor = 0;
  int dim = 0;

  bool operator==(const HaloDim&) const = default;
};

struct Rule {
  std::vector<Factor> factors;
  // One entry an operand, in the order of weft::operands(node); one entry a
  // dim.
  std::vector<std::vector<DimFactors>> operands;
  std::vector<std::vector<DimFactors>> results;
  std::vector<HaloDim> halos;
  // Results written `_`.
  std::vector<int> apart;

  bool operator==(const Rule&) const = default;
};

// Sizes the text of a rule by the types of the node's operands, and of its
// results where there are some (a node may still lack them). The text has one
// term for every tensor that the schema can take: those of absent optional
// operands (`none`, or left out at the end) and of numbers in the place of a
// tensor are passed over. Results that are
// undefined (recorded with sizes [0]) take no part. Throws InternalError when
// the text and the node do not fit: an entry of the table is wrong.
Rule rule_from_text(
    std::string_view text, const Function& function, const Node& node);

// Nothing may be split: what an op without an entry gets.
Rule whole_rule(const Function& function, const Node& node);

// Whether a split of the factor makes this result a partial one.
bool is_summed(const Rule& rule, int factor, int result);

// The sizes of a result as its factors say; 1 for dims without any.
Dims result_sizes(const Rule& rule, int result);

// The index of the factor with that name, or -1.
int find_factor(const Rule& rule, std::string_view name);

// The text form with sizes, "m=8 k=4!, k n=2 -> m n", for docs and messages.
std::string print(const Rule& rule);

}  // namespace weft
