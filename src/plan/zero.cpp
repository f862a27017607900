// SPDX-License-Identifier: Apache-2.0
#include "plan/zero.h"

#include "ops/op_def.h"

#include <algorithm>
#include <map>
#include <string>

namespace weft {
namespace {

// Backward's value behind what the optimizer reads, which may have been scaled
// or clipped.
ValueId made_by_backward(const Function& step, ValueId gradient) {
  while (step[gradient].node != NodeId::None) {
    const Node& node = step.nodes[index(step[gradient].node)];
    if (node.phase != Phase::Optimizer) {
      return gradient;
    }
    const std::vector<ValueId> read = operands(node);
    const auto same =
        std::find_if(read.begin(), read.end(), [&](ValueId value) {
          return step[value].type.sizes == step[gradient].type.sizes;
        });
    if (same == read.end()) {
      return ValueId::None;
    }
    gradient = *same;
  }
  return ValueId::None;
}

bool may_split(const Function& step, const Node& node) {
  const Rule rule = rule_of(step, node);
  return std::all_of(
      rule.factors.begin(), rule.factors.end(), [](const Factor& factor) {
        return factor.kind == FactorKind::Free;
      });
}

}  // namespace

std::vector<Belongings> belongings(const Function& step) {
  std::vector<Belongings> all;
  std::map<std::string, size_t> by_key;
  std::map<ValueId, size_t> by_value;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter) {
      by_key[input.keys.front()] = all.size();
      by_value[input.value] = all.size();
      all.push_back({.parameter = input.value, .states = {}});
    }
  }
  for (const Input& input : step.inputs) {
    const std::string& key = input.keys.front();
    const auto it = by_key.find(key.substr(0, key.rfind('.')));
    if (input.kind == InputKind::State && it != by_key.end() &&
        step[input.value].type.sizes ==
            step[all[it->second].parameter].type.sizes) {
      all[it->second].states.push_back(input.value);
    }
  }
  for (const Node& node : step.nodes) {
    if (node.phase != Phase::Optimizer) {
      continue;
    }
    const std::vector<ValueId> read = operands(node);
    if (read.size() < 2) {
      continue;
    }
    const auto it = by_value.find(read[0]);
    if (it == by_value.end() ||
        step[read[1]].type.sizes != step[read[0]].type.sizes) {
      continue;
    }
    all[it->second].gradient = made_by_backward(step, read[1]);
    all[it->second].is_elementwise = may_split(step, node);
  }
  return all;
}

Layout stored_split(
    const Layout& compute,
    const TensorType& type,
    const Axes& axes,
    const Mesh& mesh) {
  const int64_t pieces = ways(mesh, axes);
  int best = -1;
  int64_t best_size = 0;
  for (size_t dim = 0; dim < type.sizes.size(); ++dim) {
    // Levels inside a dim are left alone.
    const Levels levels = canonical(compute.dims[dim], type.sizes[dim], mesh);
    if (levels.size() > 1) {
      continue;
    }
    const int64_t before = ways(mesh, axes_of(levels));
    const int64_t size = type.sizes[dim] / before;
    if (size >= pieces && type.sizes[dim] % (before * pieces) == 0) {
      best = static_cast<int>(dim);
      break;
    }
    if (size >= pieces && size > best_size) {
      best = static_cast<int>(dim);
      best_size = size;
    }
  }
  Layout stored = compute;
  if (best >= 0) {
    Axes all = axes_of(compute.dims[static_cast<size_t>(best)]);
    all.insert(all.end(), axes.begin(), axes.end());
    stored.dims[static_cast<size_t>(best)] = split_over(std::move(all));
  }
  return stored;
}

}  // namespace weft
