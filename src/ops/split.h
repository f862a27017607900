// SPDX-License-Identifier: Apache-2.0
// One rank's part of a node: which elements it reads and makes, and the call
// that makes them.
#pragma once

#include "ops/op_def.h"

#include <cstdint>
#include <vector>

namespace weft {

// One a factor of the rule, in order.
using Pieces = std::vector<Piece>;

Pieces whole_pieces(const Rule& rule);
// Part `part` of `ways` equal ones of one factor, and all of the others.
Pieces split_pieces(const Rule& rule, int factor, int64_t ways, int64_t part);
bool is_split(const Pieces& pieces);

// The elements of a `~` dim that a piece's steps touch; may begin before 0 and
// end beyond the whole.
Piece touched(const Window& window, const Piece& steps, int64_t whole);

// Whether the pieces cut windows of an op with OpDef::framed.
bool needs_frame(const OpDef& def, const Rule& rule, const Pieces& pieces);

// Operand or result `tensor` of a rule.
struct TensorPlace {
  bool in_result = false;
  int tensor = 0;
};
const std::vector<DimFactors>& dims_of(const Rule& rule, TensorPlace place);
// The `~` mark of a dim, or nullptr.
const HaloDim* find_halo(const Rule& rule, TensorPlace place, size_t dim);

// The sizes of a piece of a tensor.
Dims local_sizes(
    const Rule& rule,
    TensorPlace place,
    const Dims& whole,
    const Pieces& pieces);

// The type with other sizes: the strides keep their order and leave no gaps,
// dims of stride 0 keep it.
TensorType with_sizes(const TensorType& type, Dims sizes);

// The node with its arguments rewritten for the pieces. Operands and results
// are still the whole values.
Node localize(
    const OpDef& def,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Pieces& pieces);

// A function with that node alone, or with the calls around it that a split
// lookup (lookup.h), a cut plane (plane_index.h) or a frame needs: its
// operands, in the order of weft::operands, are inputs of their local types.
// Operands that localize dropped are not there; `kept` tells which are.
struct LocalCall {
  Function function;
  std::vector<size_t> kept;
  // One a result of the node.
  std::vector<ValueId> results;
  // The node itself among those of the function.
  size_t at = 0;

  const Node& node() const { return function.nodes[at]; }
};
LocalCall local_call(
    const OpDef& def,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Pieces& pieces);

}  // namespace weft
