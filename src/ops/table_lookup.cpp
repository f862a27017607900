// SPDX-License-Identifier: Apache-2.0
#include "ops/table_lookup.h"

#include "ops/call.h"
#include "ops/op_def.h"

namespace weft {

std::optional<TableLookup> table_lookup_of(const Node& node) {
  if (node.op == "aten.embedding") {
    return TableLookup{value_arg(node, 0), 0, value_arg(node, 1), std::nullopt};
  }
  if (node.op == "aten.nll_loss_forward" ||
      node.op == "aten.nll_loss2d_forward") {
    return TableLookup{
        value_arg(node, 0), 1, value_arg(node, 1), int_arg(node, 4, -100)};
  }
  return std::nullopt;
}

ValueId copied_from(const Function& function, ValueId value) {
  for (;;) {
    const NodeId made = function[value].node;
    if (made == NodeId::None) {
      return value;
    }
    const Node& node = function.nodes[index(made)];
    const bool copies =
        is_view(node) || node.op == "aten._to_copy" || node.op == "aten.clone";
    if (!copies || operands(node).size() != 1) {
      return value;
    }
    value = operands(node).front();
  }
}

}  // namespace weft
