// SPDX-License-Identifier: Apache-2.0
// How one node is computed, of all the ways that its rule allows: each axis of
// the mesh may split a factor that an operand, or what is wanted of a result,
// has split already; or leave a partial sum one, where the operator is linear;
// or pass blocks round (ring.h); or do nothing. The combination is taken for
// which the fewest bytes travel: operands to where the node needs them, results
// to where they are wanted.
#pragma once

#include "graph/graph.h"
#include "graph/mesh.h"
#include "lower/node_choices.h"

namespace weft {

// Of a node of `step` in that situation. `mesh` has the axes of `time` too.
NodeChoice choose_for_node(
    const Mesh& mesh,
    const Mesh& time,
    const Function& step,
    const Node& node,
    const Situation& situation);

}  // namespace weft
