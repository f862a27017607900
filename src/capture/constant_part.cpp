// SPDX-License-Identifier: Apache-2.0
#include "capture/constant_part.h"

#include <algorithm>
#include <vector>

namespace weft {

std::optional<Function> constant_part(
    const Function& step,
    ValueId value,
    const std::function<bool(const Input&)>& is_known) {
  std::vector<bool> needed(step.values.size(), false);
  needed[index(value)] = true;
  Function part;
  part.name = step.name;
  for (size_t i = step.nodes.size(); i-- > 0;) {
    const Node& node = step.nodes[i];
    const bool is_needed = std::any_of(
        node.results.begin(), node.results.end(), [&](ValueId result) {
          return needed[index(result)];
        });
    if (!is_needed) {
      continue;
    }
    if (find_option(node, kRngOption) != nullptr) {
      return std::nullopt;
    }
    for_each_operand(node, [&](ValueId id) { needed[index(id)] = true; });
    part.nodes.push_back(node);
    part.nodes.back().releases.clear();
    part.nodes.back().overwrites = ValueId::None;
  }
  for (const Input& input : step.inputs) {
    if (!needed[index(input.value)]) {
      continue;
    }
    if (!is_known(input)) {
      return std::nullopt;
    }
    part.inputs.push_back(input);
  }
  std::reverse(part.nodes.begin(), part.nodes.end());
  part.values = step.values;
  part.outputs = {{OutputKind::Extra, "", value}};
  renumber(part);
  return part;
}

}  // namespace weft
