// SPDX-License-Identifier: Apache-2.0
#include "plan/data_parallel.h"

namespace weft {

Plan data_parallel(const Graph& graph, int64_t ranks) {
  Plan plan;
  plan.graph = graph.name;
  plan.recompute_cheap = true;
  if (ranks == 1) {
    return plan;
  }
  plan.mesh.axes = {{"data", ranks}};
  const Function& step = step_of(graph);
  int64_t batch = 0;
  for (const Input& input : step.inputs) {
    const Dims& sizes = step[input.value].type.sizes;
    if (input.kind != InputKind::Batch || sizes.empty()) {
      continue;
    }
    batch = batch == 0 ? sizes.front() : batch;
    if (sizes.front() == batch && batch % ranks == 0) {
      Layout layout = replicated(static_cast<int>(sizes.size()));
      layout.dims.front() = split_over({"data"});
      plan.decisions.push_back({step[input.value].name, std::move(layout)});
    }
  }
  return plan;
}

}  // namespace weft
