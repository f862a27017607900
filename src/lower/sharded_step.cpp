// SPDX-License-Identifier: Apache-2.0
#include "lower/sharded_step.h"

#include "lower/time_layout.h"
#include "ops/op_def.h"

#include <algorithm>
#include <utility>

namespace weft {

ShardedStep::ShardedStep(const Lowering& lowering)
    : lowering_(lowering),
      step_(step_of(lowering.graph)),
      readers_(users(step_)),
      rules_(lowering.memo->rules().rules(step_)),
      needed_(step_.values.size()) {
  find_storages();
  find_outputs();
  operands_.resize(step_.nodes.size());
  for (size_t i = 0; i < step_.nodes.size(); ++i) {
    const std::vector<ValueId> read = operands(step_.nodes[i]);
    for (size_t k = 0; k < read.size(); ++k) {
      operands_[i].push_back(operand_layout(
          mesh(),
          *rules_[i],
          lowering_.assignments[i],
          static_cast<int>(k),
          step_[read[k]].type,
          resting(read[k])));
      need(read[k], operands_[i].back());
    }
  }
  for (size_t i = 0; i < step_.outputs.size(); ++i) {
    need(step_.outputs[i].value, outputs_[i]);
  }
  for (std::vector<Layout>& layouts : needed_) {
    std::stable_sort(
        layouts.begin(), layouts.end(), [](const auto& a, const auto& b) {
          return axes_of(a).size() < axes_of(b).size();
        });
  }
}

bool ShardedStep::is_read_again(ValueId value) const {
  const NodeId made = step_[value].node;
  const std::vector<ValueId>& others =
      in_storage_[index(storage_[index(value)])];
  return std::any_of(others.begin(), others.end(), [&](ValueId other) {
    if (other == value || step_[other].node > made) {
      return false;
    }
    const bool is_returned = std::any_of(
        step_.outputs.begin(), step_.outputs.end(), [&](const Output& o) {
          return o.value == other;
        });
    return is_returned || step_[other].node == made ||
           std::any_of(
               readers_[index(other)].begin(),
               readers_[index(other)].end(),
               [made](NodeId user) { return user > made; });
  });
}

void ShardedStep::need(ValueId value, Layout layout) {
  std::vector<Layout>& all = needed_[index(value)];
  if (std::find(all.begin(), all.end(), layout) == all.end()) {
    all.push_back(std::move(layout));
  }
}

void ShardedStep::find_outputs() {
  for (const Output& output : step_.outputs) {
    // Parts of a step in time are one value to those outside.
    outputs_.push_back(without_time(
        resting(output.value),
        step_[output.value].type,
        mesh(),
        lowering_.plan.time));
    outputs_.back().partial.clear();
  }
  for (const Input& input : step_.inputs) {
    const int replacement = replacement_of(step_, input);
    if (replacement >= 0) {
      outputs_[static_cast<size_t>(replacement)] = resting(input.value);
    }
    for (size_t i = 0; i < step_.outputs.size(); ++i) {
      if (input.kind == InputKind::Parameter &&
          step_.outputs[i].kind == OutputKind::Gradient &&
          step_.outputs[i].key == input.keys.front()) {
        outputs_[i] = resting(input.value);
      }
    }
  }
}

void ShardedStep::find_storages() {
  storage_.resize(step_.values.size());
  in_storage_.resize(step_.values.size());
  for (size_t i = 0; i < storage_.size(); ++i) {
    storage_[i] = static_cast<ValueId>(i);
  }
  for (const Node& node : step_.nodes) {
    const std::vector<ValueId> read = operands(node);
    for (const ValueId result : node.results) {
      if (is_view(node) && !read.empty()) {
        storage_[index(result)] = storage_[index(read.front())];
      }
    }
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    in_storage_[index(storage_[i])].push_back(static_cast<ValueId>(i));
  }
}

}  // namespace weft
