// SPDX-License-Identifier: Apache-2.0
#include "ops/call.h"
#include "rewrite/edit.h"
#include "rewrite/graph_pass.h"

#include <algorithm>

namespace weft {

// Nodes but guards have no effect but their results, and random numbers are
// counted by `rng` and not drawn in order: what nothing reads can go.
void drop_dead_code(Function& function) {
  std::vector<bool> is_read(function.values.size());
  for (const Output& output : function.outputs) {
    is_read[index(output.value)] = true;
  }
  Edit edit = start_edit(function);
  for (size_t i = function.nodes.size(); i-- > 0;) {
    const Node& node = function.nodes[i];
    edit.removed[i] =
        !is_guard(node) &&
        std::none_of(node.results.begin(), node.results.end(), [&](ValueId id) {
          return is_read[index(id)];
        });
    if (!edit.removed[i]) {
      for_each_operand(node, [&](ValueId id) { is_read[index(id)] = true; });
    }
  }
  apply(edit, function);
}

}  // namespace weft
