// SPDX-License-Identifier: Apache-2.0
#include "plan/forward_plan.h"

#include <algorithm>

namespace weft {

Plan forward_plan(Plan plan, const Graph& graph) {
  const Function& step = step_of(graph);
  const bool trains =
      std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node& node) {
        return node.phase != Phase::Forward;
      });
  if (trains) {
    return plan;
  }
  const auto names_nothing = [&](const auto& line) {
    return std::none_of(
        step.values.begin(), step.values.end(), [&](const Value& value) {
          return matches(line.pattern, value.name);
        });
  };
  std::erase_if(plan.decisions, names_nothing);
  plan.recompute.clear();
  return plan;
}

}  // namespace weft
