// SPDX-License-Identifier: Apache-2.0
#include "plan/forward_plan.h"

#include "plan/pattern_index.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace weft {
namespace {

// Without the lines that name nothing of the graph.
Plan lines_for(Plan plan, const Graph& graph) {
  const Function& step = step_of(graph);
  std::vector<bool> is_found(plan.decisions.size());
  const PatternIndex patterns(plan.decisions);
  for (const Value& value : step.values) {
    patterns.for_each_match(value.name, [&](size_t i) { is_found[i] = true; });
  }
  std::vector<Decision> found;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    if (is_found[i]) {
      found.push_back(plan.decisions[i]);
    }
  }
  plan.decisions = std::move(found);
  std::erase_if(plan.keeps, [&](const StageKeep& line) {
    return std::none_of(
        step.inputs.begin(), step.inputs.end(), [&](const Input& input) {
          return matches(line.pattern, step[input.value].name);
        });
  });
  plan.recompute.clear();
  plan.graph = graph.name;
  return plan;
}

std::string parameter_of(const Input& state) {
  const std::string& key = state.keys.front();
  return key.substr(0, key.rfind('.'));
}

}  // namespace

Plan plan_for_part(Plan plan, const Graph& whole, const Graph& part) {
  const Function& step = step_of(whole);
  // By parameter and sizes: a state may have fewer dims.
  std::map<std::pair<std::string, Dims>, const Decision*> by_parameter;
  std::set<std::string> known;
  const PatternIndex decisions(plan.decisions);
  for (const Input& input : step.inputs) {
    const Value& value = step[input.value];
    known.insert(value.name);
    const Decision* decision = decision_for(plan, decisions, value.name);
    if (input.kind == InputKind::State && decision != nullptr) {
      by_parameter.try_emplace(
          {parameter_of(input), value.type.sizes}, decision);
    }
  }
  std::vector<Decision> more;
  const Function& mine = step_of(part);
  for (const Input& input : mine.inputs) {
    const Value& value = mine[input.value];
    if (input.kind != InputKind::State || known.contains(value.name)) {
      continue;
    }
    const auto found =
        by_parameter.find({parameter_of(input), value.type.sizes});
    if (found != by_parameter.end()) {
      more.push_back({value.name, found->second->layout});
    }
  }
  plan.decisions.insert(plan.decisions.end(), more.begin(), more.end());
  return lines_for(std::move(plan), part);
}

Plan forward_plan(Plan plan, const Graph& graph) {
  const Function& step = step_of(graph);
  const bool trains =
      std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node& node) {
        return node.phase != Phase::Forward;
      });
  return trains ? plan : lines_for(std::move(plan), graph);
}

}  // namespace weft
