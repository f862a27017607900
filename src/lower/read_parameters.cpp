// SPDX-License-Identifier: Apache-2.0
// Parameters that the plan stores in one layout and computes with in another
// get values of their own for the latter: one for forward and, so that nothing
// big is kept between the two, one for backward. Views of them that forward
// made are made again for backward. The optimizer reads what is stored.
#include "base/error.h"
#include "lower/pass.h"
#include "ops/op_def.h"
#include "plan/pattern_index.h"

#include <map>
#include <utility>

namespace weft {
namespace {

class ParameterReads {
 public:
  explicit ParameterReads(Lowering& lowering)
      : lowering_(lowering),
        step_(*find_function(lowering.graph, "step")),
        before_(step_.nodes),
        stored_(step_.values.size(), false) {
    const PatternIndex decisions(lowering.plan.decisions);
    for (const Input& input : step_.inputs) {
      const Decision* decision =
          decision_for(lowering.plan, decisions, step_[input.value].name);
      if (input.kind == InputKind::Parameter && decision != nullptr &&
          decision->compute && *decision->compute != decision->layout) {
        stored_[index(input.value)] = true;
        layouts_[input.value] = *decision->compute;
      }
    }
  }

  void run() {
    if (layouts_.empty()) {
      return;
    }
    step_.nodes.clear();
    for (Node node : before_) {
      if (node.phase != Phase::Optimizer) {
        std::vector<ValueId> now;
        for (const ValueId read : operands(node)) {
          now.resize(std::max(now.size(), index(read) + 1));
          now[index(read)] = node.phase == Phase::Forward
                                 ? forward(read)
                                 : later(read, node.phase);
        }
        replace_operands(node, now);
      }
      step_.nodes.push_back(std::move(node));
    }
    renumber(step_);
  }

 private:
  bool is_stored(ValueId value) const {
    return index(value) < stored_.size() && stored_[index(value)];
  }

  // Whether forward made it as a view of such a parameter.
  bool is_view_of_stored(ValueId value) const {
    if (index(value) >= stored_.size() || step_[value].node == NodeId::None) {
      return false;
    }
    const Node& node = before_[index(step_[value].node)];
    if (node.phase != Phase::Forward || !is_view(node) ||
        operands(node).empty()) {
      return false;
    }
    const ValueId base = operands(node).front();
    return is_stored(base) || is_view_of_stored(base);
  }

  ValueId read(ValueId parameter, Phase phase, const std::string& suffix) {
    Node node;
    node.op = "aten.alias";
    node.args = {{parameter}};
    node.phase = phase;
    const ValueId value = add_value(
        step_, cat(step_[parameter].name, suffix), step_[parameter].type);
    node.results = {value};
    step_.nodes.push_back(std::move(node));
    lowering_.reads.push_back(
        {.pattern = step_[value].name, .layout = layouts_.at(parameter)});
    return value;
  }

  ValueId forward(ValueId value) {
    if (!is_stored(value)) {
      return value;
    }
    const auto [found, is_new] = forward_.try_emplace(value, ValueId::None);
    if (is_new) {
      found->second = read(value, Phase::Forward, ".forward");
    }
    return found->second;
  }

  ValueId later(ValueId value, Phase phase) {
    if (!is_stored(value) && !is_view_of_stored(value)) {
      return value;
    }
    const auto [found, is_new] = later_.try_emplace(value, ValueId::None);
    if (!is_new) {
      return found->second;
    }
    if (is_stored(value)) {
      return later_[value] = read(value, phase, ".backward");
    }
    Node node = before_[index(step_[value].node)];
    const ValueId base = operands(node).front();
    std::vector<ValueId> now(step_.values.size());
    for (const ValueId read : operands(node)) {
      now[index(read)] = read;
    }
    now[index(base)] = later(base, phase);
    replace_operands(node, now);
    node.phase = phase;
    node.releases.clear();
    for (ValueId& result : node.results) {
      const ValueId fresh = add_value(
          step_, cat(step_[result].name, ".backward"), step_[result].type);
      later_[result] = fresh;
      result = fresh;
    }
    step_.nodes.push_back(std::move(node));
    return later_[value];
  }

  Lowering& lowering_;
  Function& step_;
  const std::vector<Node> before_;
  std::vector<bool> stored_;
  std::map<ValueId, Layout> layouts_;
  std::map<ValueId, ValueId> forward_;
  std::map<ValueId, ValueId> later_;
};

}  // namespace

void read_parameters(Lowering& lowering) { ParameterReads(lowering).run(); }

}  // namespace weft
