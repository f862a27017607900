// SPDX-License-Identifier: Apache-2.0
// One rank's part of a node whose looked-up factor (`?`) is split. The rank has
// the rows [start, start + size); an index that points elsewhere must neither
// find nor change anything there:
//
//   an op that reads rows    finds zeros, so that the ranks' results add up:
//     %shifted = index - start; %outside = shifted < 0 or shifted >= size
//     %rows = op(piece, shifted with 0 where outside)
//     %result = rows with 0 where outside
//   an op that writes rows   writes to one more row, which is cut off:
//     %more = op(piece and a row, shifted with `size` where outside)
//     %result = more[0 .. size)
//   an op that passes over an index (OpDef::ignore_arg) is told to.
#pragma once

#include "ops/node_builder.h"
#include "ops/split.h"

#include <vector>

namespace weft {

// The `?` factor of which a piece is taken, or -1.
int split_lookup(const Rule& rule, const Pieces& pieces);

// Appends the calls and gives the values of the results. `local` is the node as
// `localize` makes it, but with operands of its own, of their local sizes, in
// the builder's function; `types` are the local types of its results. `rule`
// is the whole node's.
std::vector<ValueId> append_lookup(
    NodeBuilder& builder,
    const OpDef& def,
    Node local,
    const std::vector<TensorType>& types,
    const Rule& rule,
    const Pieces& pieces);

}  // namespace weft
