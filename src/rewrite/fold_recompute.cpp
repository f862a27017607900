// SPDX-License-Identifier: Apache-2.0
#include "rewrite/edit.h"
#include "rewrite/graph_pass.h"

#include <unordered_map>
#include <utility>

namespace weft {

// Gives the graph as it would be without torch.utils.checkpoint: whether to
// keep or to recompute is then for the plan to say. A recomputed call whose
// arguments differ (batch statistics that forward has updated) stays.
void fold_recompute(Function& function) {
  Edit edit = start_edit(function);
  std::unordered_map<std::string, size_t> forward;
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& node = function.nodes[i];
    const bool is_source = node.phase == Phase::Forward;
    if ((!is_source && node.phase != Phase::Recompute) ||
        !is_repeatable(node)) {
      continue;
    }
    Node call = node;
    replace_operands(call, edit.stand_in);
    std::string key = call_key(function, std::move(call));
    if (is_source) {
      forward.emplace(std::move(key), i);
      continue;
    }
    const auto found = forward.find(key);
    if (found == forward.end()) {
      continue;
    }
    edit.removed[i] = true;
    const Node& first = function.nodes[found->second];
    for (size_t result = 0; result < node.results.size(); ++result) {
      edit.stand_in[index(node.results[result])] = first.results[result];
    }
  }
  apply(edit, function);
}

}  // namespace weft
