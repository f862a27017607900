// SPDX-License-Identifier: Apache-2.0
// Nodes whose windows are split, as instructions. Neighbours send each other
// what the others' windows touch of their pieces, corners too, each box
// straight to who needs it; what lies outside the whole is filled in. Borders
// of results travel the other way and are added.
//
// What needs no border runs meanwhile: the inner steps of a node, or, of a
// backward op with several results, those that read no borders.
#pragma once

#include "graph/graph.h"
#include "lower/assignment.h"
#include "lower/box_parts.h"
#include "lower/emitter.h"
#include "ops/split.h"

#include <map>
#include <string>
#include <vector>

namespace weft {

// The borders that a rank has had from others, by what they belong to. They are
// small, and kept for whoever needs the same: a convolution's backward op.
using Borders = std::map<std::string, std::vector<BoxPart>>;

struct WindowedNode {
  const Function& step;
  // One of the step, with its rule and how it is split; `pieces` are the
  // rank's.
  const Node& node;
  const Rule& rule;
  const Assignment& assignment;
  Pieces pieces;
  // The rank's own pieces of the operands, values of the block.
  std::vector<ValueId> operands;
  // How the results lie.
  std::vector<Layout> made;
};

// Gives the rank's pieces of the results.
std::vector<ValueId> emit_windowed(
    Emitter& emitter, Borders& borders, const WindowedNode& windowed);

}  // namespace weft
