// SPDX-License-Identifier: Apache-2.0
#include "lower/stages.h"

#include "ops/op_def.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace weft {
namespace {

class StageFinder {
 public:
  StageFinder(const Function& step, const Plan& plan)
      : step_(step),
        plan_(plan),
        readers_(users(step)),
        is_free_(step.nodes.size(), false),
        of_node_(step.nodes.size(), kNoStage),
        of_input_(step.values.size(), kNoStage) {}

  StageMap run() {
    cut_forward();
    for (const Input& input : step_.inputs) {
      const bool stays = input.kind == InputKind::Parameter ||
                         input.kind == InputKind::Buffer ||
                         input.kind == InputKind::State;
      const auto stage = kept_in(plan_, step_[input.value].name);
      if (stays && stage) {
        of_input_[index(input.value)] = *stage;
      }
    }
    for (const Input& input : step_.inputs) {
      own(input);
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase == Phase::Optimizer) {
        of_node_[i] = of_update(node);
      } else if (node.phase != Phase::Forward) {
        is_free_[i] = is_free(node);
        of_node_[i] = is_free_[i] ? kNoStage : of_backward(node);
      }
    }
    for (size_t i = step_.nodes.size(); i-- > 0;) {
      if (is_free_[i]) {
        of_node_[i] = of_free(step_.nodes[i]);
      }
    }
    return {std::move(of_node_), std::move(of_input_)};
  }

 private:
  // Views of inputs go with whoever reads them first.
  void place_views() {
    for (size_t i = step_.nodes.size(); i-- > 0;) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Forward || !is_view_of_input(node)) {
        continue;
      }
      int64_t first = kNoStage;
      for (const NodeId reader : readers_[index(node.results.front())]) {
        const int64_t stage = of_node_[index(reader)];
        if (is_forward(reader) && (first == kNoStage || stage < first)) {
          first = stage;
        }
      }
      of_node_[i] = first == kNoStage ? of_node_[i] : first;
    }
  }

  bool is_view_of_input(const Node& node) const {
    const std::vector<ValueId> read = operands(node);
    if (!is_view(node) || read.empty()) {
      return false;
    }
    const NodeId made = step_[read.front()].node;
    return made == NodeId::None || is_view_of_input(step_.nodes[index(made)]);
  }

  void cut_forward() {
    size_t stage = 0;
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Forward) {
        continue;
      }
      const bool begins =
          stage < plan_.stages.size() &&
          std::any_of(
              node.results.begin(), node.results.end(), [&](ValueId result) {
                return matches(plan_.stages[stage].pattern, step_[result].name);
              });
      stage += begins ? 1 : 0;
      of_node_[i] = static_cast<int64_t>(stage);
    }
    place_views();
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Forward) {
        continue;
      }
      in_module_[std::string(module_path(step_, node))].insert(of_node_[i]);
      for (const ValueId read : operands(node)) {
        if (step_[read].node == NodeId::None) {
          int64_t& first = of_input_[index(read)];
          first =
              first == kNoStage ? of_node_[i] : std::min(first, of_node_[i]);
        }
      }
    }
  }

  // A state goes with its parameter.
  void own(const Input& state) {
    if (state.kind != InputKind::State) {
      return;
    }
    const std::string_view key = state.keys.front();
    for (const Input& input : step_.inputs) {
      if (input.kind == InputKind::Parameter &&
          key.substr(0, key.rfind('.')) == input.keys.front()) {
        of_input_[index(state.value)] = of_input_[index(input.value)];
      }
    }
  }

  int64_t stage_of(ValueId value) const {
    const NodeId node = step_[value].node;
    return node == NodeId::None ? of_input_[index(value)]
                                : of_node_[index(node)];
  }

  int64_t of_backward(const Node& node) const {
    // What is added up from step to step is where it is kept.
    if (node.overwrites != ValueId::None) {
      const int64_t keeper = of_input_[index(node.overwrites)];
      if (step_[node.overwrites].node == NodeId::None && keeper != kNoStage) {
        return keeper;
      }
    }
    // No later than what it reads of backward is made.
    int64_t most = stage_count(plan_) - 1;
    for (const ValueId read : operands(node)) {
      const NodeId made = step_[read].node;
      if (made != NodeId::None && !is_forward(made) && !is_free_[index(made)]) {
        most = std::min(most, stage_of(read));
      }
    }
    const auto module = in_module_.find(std::string(module_path(step_, node)));
    if (has_no_module(node) || module == in_module_.end()) {
      return of_unknown(node, most);
    }
    const std::set<int64_t>& stages = module->second;
    const auto after = stages.upper_bound(most);
    return after == stages.begin() ? *after : *std::prev(after);
  }

  // Of autograd's own sums and views, and of nodes that passes add, no module
  // is known, which looks like the outermost one.
  bool has_no_module(const Node& node) const {
    return module_path(step_, node).empty();
  }

  // Whether it can be anywhere: it reads nothing that a stage makes, as a
  // parameter that is read again for backward.
  bool is_free(const Node& node) const {
    const std::vector<ValueId> read = operands(node);
    return has_no_module(node) && node.overwrites == ValueId::None &&
           std::all_of(read.begin(), read.end(), [&](ValueId value) {
             const NodeId made = step_[value].node;
             return made == NodeId::None || is_free_[index(made)];
           });
  }

  // Where backward reads it first, once that is known.
  int64_t of_free(const Node& node) const {
    int64_t stage = kNoStage;
    for (const ValueId result : node.results) {
      for (const NodeId reader : readers_[index(result)]) {
        stage = std::max(stage, of_node_[index(reader)]);
      }
    }
    for (const ValueId read : operands(node)) {
      stage = stage == kNoStage ? stage_of(read) : stage;
    }
    return std::max<int64_t>(stage, 0);
  }

  // The last stage up to `most` where all is at hand that it reads of forward.
  int64_t of_unknown(const Node& node, int64_t most) const {
    int64_t stage = most;
    for (const ValueId read : operands(node)) {
      const NodeId made = step_[read].node;
      if (made == NodeId::None || !is_forward(made)) {
        continue;
      }
      int64_t last = stage_of(read);
      for (const NodeId reader : readers_[index(read)]) {
        const int64_t here = of_node_[index(reader)];
        if (is_forward(reader) && here <= most) {
          last = std::max(last, here);
        }
      }
      stage = std::min(stage, last);
    }
    return stage;
  }

  bool is_forward(NodeId node) const {
    return step_.nodes[index(node)].phase == Phase::Forward;
  }

  int64_t of_update(const Node& node) const {
    std::optional<int64_t> owner;
    int64_t latest = 0;
    for (const ValueId read : operands(node)) {
      const int64_t stage = stage_of(read);
      if (step_[read].node == NodeId::None && stage != kNoStage) {
        owner = owner ? std::min(*owner, stage) : stage;
      }
      latest = std::max(latest, stage);
    }
    return owner.value_or(latest);
  }

  const Function& step_;
  const Plan& plan_;
  const std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> is_free_;
  std::vector<int64_t> of_node_;
  // Of the first node of forward that reads it.
  std::vector<int64_t> of_input_;
  // By module path, the stages of its forward.
  std::map<std::string, std::set<int64_t>> in_module_;
};

}  // namespace

StageMap stages_of(const Function& step, const Plan& plan) {
  return StageFinder(step, plan).run();
}

}  // namespace weft
