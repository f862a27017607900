// SPDX-License-Identifier: Apache-2.0
#include "capture/constant_part.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace weft {
namespace {

bool makes_any(const Node& node, const std::vector<bool>& wanted) {
  return std::any_of(
      node.results.begin(), node.results.end(), [&](ValueId result) {
        return wanted[index(result)];
      });
}

}  // namespace

std::optional<std::vector<bool>> known_origin(
    const Function& step,
    ValueId value,
    const std::function<bool(const Input&)>& is_known) {
  std::vector<bool> needed(step.values.size(), false);
  needed[index(value)] = true;
  for (size_t i = step.nodes.size(); i-- > 0;) {
    const Node& node = step.nodes[i];
    if (!makes_any(node, needed)) {
      continue;
    }
    if (find_option(node, kRngOption) != nullptr) {
      return std::nullopt;
    }
    for_each_operand(node, [&](ValueId id) { needed[index(id)] = true; });
  }
  const bool is_all_known = std::all_of(
      step.inputs.begin(), step.inputs.end(), [&](const Input& input) {
        return !needed[index(input.value)] || is_known(input);
      });
  return is_all_known ? std::optional(std::move(needed)) : std::nullopt;
}

std::optional<Function> constant_part(
    const Function& step,
    ValueId value,
    const std::function<bool(const Input&)>& is_known) {
  const auto needed = known_origin(step, value, is_known);
  if (!needed) {
    return std::nullopt;
  }
  Function part;
  part.name = step.name;
  for (const Node& node : step.nodes) {
    if (makes_any(node, *needed)) {
      part.nodes.push_back(node);
      part.nodes.back().releases.clear();
      part.nodes.back().overwrites = ValueId::None;
    }
  }
  std::copy_if(
      step.inputs.begin(),
      step.inputs.end(),
      std::back_inserter(part.inputs),
      [&](const Input& input) { return (*needed)[index(input.value)]; });
  part.values = step.values;
  part.outputs = {{OutputKind::Extra, "", value}};
  renumber(part);
  return part;
}

}  // namespace weft
