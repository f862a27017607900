// SPDX-License-Identifier: Apache-2.0
#include "plan/forward_plan.h"

#include <algorithm>
#include <utility>

namespace weft {

Plan plan_for_part(Plan plan, const Graph& graph) {
  const Function& step = step_of(graph);
  const auto names_nothing = [&](const auto& line) {
    return std::none_of(
        step.values.begin(), step.values.end(), [&](const Value& value) {
          return matches(line.pattern, value.name);
        });
  };
  std::erase_if(plan.decisions, names_nothing);
  plan.recompute.clear();
  plan.graph = graph.name;
  return plan;
}

Plan forward_plan(Plan plan, const Graph& graph) {
  const Function& step = step_of(graph);
  const bool trains =
      std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node& node) {
        return node.phase != Phase::Forward;
      });
  return trains ? plan : plan_for_part(std::move(plan), graph);
}

}  // namespace weft
