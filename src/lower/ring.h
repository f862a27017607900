// SPDX-License-Identifier: Apache-2.0
// Nodes whose blocks ranks pass round (OpDef::blocks), as attention does with
// keys and values when the sequence is split. Each rank keeps its piece of the
// factor that stays. A block goes from rank to rank, to those that see
// something of it, and travels on while it is computed with. What is summed for
// a block travels behind it, from its second rank on, and at last home.
//
// Nobody ever holds more than two blocks beside its own. One rank takes n - 1
// blocks from the others, as if it had gathered them.
#pragma once

#include "graph/graph.h"
#include "lower/assignment.h"
#include "lower/emitter.h"
#include "ops/rule.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// The factors by whose blocks the node can be computed, if there are any.
std::optional<Ring> find_ring(const Node& node, const Rule& rule);

// Whether ranks can pass blocks round so, with `assignment.ring` set: both
// factors are split over the same axes, and each rank sees something of its own
// block.
bool can_pass_round(
    const Mesh& mesh,
    const Node& node,
    const Rule& rule,
    const Assignment& assignment);

// Bytes that one rank takes from others for it, at most.
double ring_bytes(
    const Mesh& mesh,
    const Function& function,
    const Node& node,
    const Rule& rule,
    const Assignment& assignment);

// The node on one rank. `mine` are its operands, as operand_layout wants them;
// gives its results, as result_layout says.
std::vector<ValueId> emit_ring(
    Emitter& emitter,
    const Function& step,
    const Node& node,
    const Rule& rule,
    const Assignment& assignment,
    const std::vector<ValueId>& mine);

}  // namespace weft
