// SPDX-License-Identifier: Apache-2.0
#include "lower/expand_nodes.h"

#include "ops/node_builder.h"
#include "ops/op_def.h"

#include <utility>

namespace weft {

void expand_nodes(Lowering& lowering, const std::set<size_t>& chosen) {
  Function& step = *find_function(lowering.graph, "step");
  const std::vector<Node> before = std::exchange(step.nodes, {});
  const std::vector<int64_t> stages = std::exchange(lowering.node_stages, {});
  NodeBuilder builder(step);
  std::vector<ValueId> now(step.values.size());
  for (size_t i = 0; i < now.size(); ++i) {
    now[i] = static_cast<ValueId>(i);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    Node node = before[i];
    replace_operands(node, now);
    // Of the recorded run; lowering frees by itself.
    node.releases.clear();
    node.overwrites = ValueId::None;
    std::vector<ValueId> results;
    if (chosen.contains(i)) {
      builder.begin(before[i]);
      results = find_op(node.op)->expand(builder, node);
      if (results.empty()) {
        lowering.unexpanded.insert(step[node.results.front()].name);
      }
    }
    if (results.empty()) {
      builder.keep(std::move(node));
    }
    if (!stages.empty()) {
      lowering.node_stages.resize(step.nodes.size(), stages[i]);
    }
    if (results.empty()) {
      continue;
    }
    for (size_t k = now.size(); k < step.values.size(); ++k) {
      now.push_back(static_cast<ValueId>(k));
    }
    for (size_t k = 0; k < results.size(); ++k) {
      const ValueId old = node.results[k];
      now[index(old)] = results[k];
      if (results[k] != ValueId::None) {
        // Plans and messages know it by this name.
        std::swap(step[old].name, step[results[k]].name);
      }
    }
  }
  for (Output& output : step.outputs) {
    output.value = now[index(output.value)];
  }
  renumber(step);
}

}  // namespace weft
