// SPDX-License-Identifier: Apache-2.0
#include "plan/batch_share.h"

#include "base/error.h"
#include "plan/pattern_index.h"

namespace weft {
namespace {

Axes batch_axes(const Plan& plan, const Mesh& mesh, const Graph& graph) {
  const PatternIndex decisions(plan.decisions);
  const Function& step = step_of(graph);
  for (const Input& input : step.inputs) {
    const Value& value = step[input.value];
    if (input.kind != InputKind::Batch || value.type.sizes.empty()) {
      continue;
    }
    const Decision* decision = decision_for(plan, decisions, value.name);
    if (decision == nullptr || decision->layout.dims.empty()) {
      continue;
    }
    Axes axes = axes_of(only_on(decision->layout, mesh).dims.front());
    if (!axes.empty()) {
      return axes;
    }
  }
  return {};
}

}  // namespace

BatchShare batch_share(const Plan& plan, const Graph& graph) {
  WEFT_CHECK_USER(
      !has_unequal_stages(plan),
      "batch=\"local\" needs stages that cut the batch alike, and here they "
      "have meshes of their own: give every rank the whole batch, with "
      "batch=\"global\"");
  const Mesh mesh = stage_mesh(plan.mesh);
  const Axes axes = batch_axes(plan, mesh, graph);
  BatchShare share;
  share.parts = ways(mesh, axes);
  for (int64_t rank = 0; rank < rank_count(plan); ++rank) {
    const std::vector<int64_t> place =
        coordinates(mesh, rank % rank_count(mesh));
    int64_t part = 0;
    for (const std::string& name : axes) {
      const auto axis = static_cast<size_t>(find_axis(mesh, name));
      part = part * mesh.axes[axis].size + place[axis];
    }
    share.part_of_rank.push_back(part);
  }
  return share;
}

}  // namespace weft
