// SPDX-License-Identifier: Apache-2.0
#include "ops/op_def.h"
#include "rewrite/edit.h"
#include "rewrite/graph_pass.h"

#include <unordered_map>
#include <utility>

namespace weft {

namespace {

// Where a call may look for its equal. Within one phase, else a value of
// forward would have to live until backward; a view costs nothing to keep. What
// is recomputed stays apart: fold-recompute is a choice of its own.
std::string search_key(const Function& function, Node call) {
  const bool anywhere = is_view(call) && call.phase != Phase::Recompute;
  const std::string_view where = anywhere ? "view" : name(call.phase);
  return std::string(where) + " " + call_key(function, std::move(call));
}

// Random calls stay: with another `rng` they are not equal, and with the same
// one it is a recomputation. Unset results stay: each is there to be
// overwritten.
bool may_merge(const Node& node) {
  const OpDef* def = find_op(node.op);
  const bool is_unset = def != nullptr && def->kind == OpKind::Empty;
  return is_repeatable(node) && find_option(node, kRngOption) == nullptr &&
         !is_unset;
}

}  // namespace

void merge_common_subexpressions(Function& function) {
  Edit edit = start_edit(function);
  std::unordered_map<std::string, size_t> first_with;
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    Node call = function.nodes[i];
    if (!may_merge(call)) {
      continue;
    }
    replace_operands(call, edit.stand_in);
    const std::vector<ValueId> results = call.results;
    const auto [found, is_new] =
        first_with.emplace(search_key(function, std::move(call)), i);
    if (is_new) {
      continue;
    }
    edit.removed[i] = true;
    const Node& first = function.nodes[found->second];
    for (size_t result = 0; result < results.size(); ++result) {
      edit.stand_in[index(results[result])] = first.results[result];
    }
  }
  apply(edit, function);
}

}  // namespace weft
