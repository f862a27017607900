// SPDX-License-Identifier: Apache-2.0
// Runs the nodes of a function on real tensors, whole or split.
#pragma once

#include "ops/op_def.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// By ValueId.
using ValueTensors = std::vector<at::Tensor>;

// Runs every node in order; `values` has the function's inputs.
void run_nodes(const Function& function, ValueTensors& values);

// What OpDef::expand makes of a node: its nodes are those of the function.
struct Expansion {
  Function function;
  // One a result of the node; None for undefined ones.
  std::vector<ValueId> results;
};

// Nullopt where the entry does not expand these arguments.
std::optional<Expansion> expand_node(
    const OpDef& def, const Function& function, const Node& node);

// Runs the expansion on all of the node's operands. Throws UserError when a
// type is not what the table says.
ValueTensors run_expanded(
    const Expansion& expansion, const Node& node, const ValueTensors& operands);

// A factor of the whole node's rule, `ways` equal pieces.
struct FactorCut {
  int factor = 0;
  int64_t ways = 1;
};

// Runs every node on the pieces that follow from a cut of a factor of the
// node's rule, and joins them by the rule of each. Throws UserError when some
// node must have whole what is cut.
ValueTensors run_expanded_split(
    const Expansion& expansion,
    const Node& node,
    const Rule& rule,
    FactorCut cut,
    const ValueTensors& operands);

}  // namespace weft
