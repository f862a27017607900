// SPDX-License-Identifier: Apache-2.0
// One rank's part of a node with indices into a plane (OpDef::plane_index) of
// which a piece is taken. The kernel counts in the plane that it is given, and
// the value holds places in the whole one:
//
//   an op that makes indices   %local = op(piece); %result = whole(%local)
//   an op that reads indices   %result = op(..., local(%indices))
#pragma once

#include "ops/node_builder.h"
#include "ops/split.h"

#include <vector>

namespace weft {

// Whether the node has such indices and the pieces cut its plane.
bool cuts_plane(const OpDef& def, const Rule& rule, const Pieces& pieces);

// The sizes of the whole plane of a node with its rule: its `~` dims.
Dims plane_sizes(const Function& function, const Node& node, const Rule& rule);

// Appends the calls and gives the values of the results. `local` is the node as
// `localize` makes it, but with operands of its own, of their local sizes, in
// the builder's function; `types` are the local types of its results. `rule`
// is the whole node's, and `plane` its plane.
std::vector<ValueId> append_plane_call(
    NodeBuilder& builder,
    const OpDef& def,
    Node local,
    const std::vector<TensorType>& types,
    const Rule& rule,
    const Pieces& pieces,
    const Dims& plane);

}  // namespace weft
