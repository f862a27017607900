// SPDX-License-Identifier: Apache-2.0
#include "search/units.h"

#include "base/error.h"
#include "ops/kernel_memory.h"
#include "ops/op_def.h"
#include "plan/pipeline_cut.h"
#include "profile/lifetimes.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"

#include <algorithm>
#include <future>
#include <map>

namespace weft {
namespace {

std::vector<LayerClass> classes_of(const Function& step) {
  // Only flops are looked at, which are the same on every machine.
  const CountedKernels rough;
  std::future<Lifetimes> lives =
      std::async(std::launch::async, [&] { return lifetimes(step); });
  const std::vector<int32_t> signature_of = signatures(step);
  std::vector<int64_t> flops;
  for (const NodeCosts& costs : node_costs(step, signature_of)) {
    flops.push_back(costs.flops);
  }
  return layer_classes(step, lives.get(), signature_of, flops);
}

// By node, the kind of the unit that begins there.
using Starts = std::map<NodeId, int32_t>;

// The node at which a layer begins: views of what it reads may stand before the
// first node that computes, and its module begins with the first of them.
NodeId start_of_layer(
    const Function& step,
    const std::vector<std::string>& patterns,
    NodeId first,
    NodeId before) {
  NodeId start = first;
  for (size_t i = index(first); i > 0; --i) {
    const Node& node = step.nodes[i];
    if (!patterns[i].empty()) {
      start = static_cast<NodeId>(i);
    }
    if (static_cast<NodeId>(i - 1) <= before || !is_view(step.nodes[i - 1]) ||
        node.phase != Phase::Forward) {
      break;
    }
  }
  return start;
}

Starts starts_of(
    const Function& step, const std::vector<std::string>& patterns) {
  std::future<std::vector<StageCut>> cuts =
      std::async(std::launch::async, [&] { return stage_cuts(step); });
  Starts starts;
  std::vector<bool> is_in_layer(step.nodes.size(), false);
  int32_t kinds = 0;
  for (const LayerClass& each : classes_of(step)) {
    if (each.parent >= 0) {
      continue;
    }
    const int32_t kind = kinds++;
    NodeId before = NodeId::None;
    for (const LayerCopy& copy : each.copies) {
      const NodeId start = start_of_layer(step, patterns, copy.first, before);
      starts[start] = kind;
      for (size_t i = index(start); i <= index(copy.last); ++i) {
        is_in_layer[i] = true;
      }
      before = copy.last;
    }
    for (size_t i = index(before) + 1; i < step.nodes.size(); ++i) {
      if (step.nodes[i].phase == Phase::Forward) {
        starts.try_emplace(static_cast<NodeId>(i), -1);
        break;
      }
    }
  }
  for (const StageCut& cut : cuts.get()) {
    if (!is_in_layer[index(cut.node)]) {
      starts.try_emplace(cut.node, -1);
    }
  }
  for (auto& [node, kind] : starts) {
    if (kind < 0) {
      kind = kinds++;
    }
  }
  return starts;
}

class UnitFinder {
 public:
  explicit UnitFinder(const Function& step) : step_(step) {}

  StepUnits run() {
    cut();
    find_modules();
    find_inputs();
    follow();
    return std::move(out_);
  }

 private:
  void cut() {
    const std::vector<std::string> patterns = stage_patterns(step_);
    Starts starts = starts_of(step_, patterns);
    int32_t other = static_cast<int32_t>(step_.nodes.size());
    out_.of_node.assign(step_.nodes.size(), -1);
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].phase != Phase::Forward) {
        continue;
      }
      const auto node = static_cast<NodeId>(i);
      const auto found = starts.find(node);
      if (out_.units.empty() || found != starts.end()) {
        out_.units.push_back(
            {.first = node,
             .last = node,
             .stage_pattern = out_.units.empty() ? "" : patterns[i],
             .kind = found == starts.end() ? other++ : found->second});
      }
      out_.units.back().last = node;
      out_.of_node[i] = out_.size() - 1;
    }
    WEFT_CHECK_USER(
        !out_.units.empty(), "the step has no forward nodes: nothing to plan");
  }

  void find_modules() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].phase != Phase::Forward) {
        continue;
      }
      const std::string path(module_path(step_, step_.nodes[i]));
      const auto [at, is_new] =
          out_.of_module.try_emplace(path, out_.of_node[i]);
      if (!is_new && at->second != out_.of_node[i]) {
        at->second = -1;
      }
    }
  }

  void find_inputs() {
    std::vector<int32_t> of_value(step_.values.size(), -1);
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (out_.of_node[i] < 0) {
        continue;
      }
      for_each_operand(step_.nodes[i], [&](ValueId read) {
        if (of_value[index(read)] < 0) {
          of_value[index(read)] = out_.of_node[i];
        }
      });
    }
    std::unordered_map<std::string, int32_t> of_key;
    for (const Input& input : step_.inputs) {
      out_.of_input.push_back(of_value[index(input.value)]);
      if (input.kind == InputKind::Parameter) {
        of_key[input.keys.front()] = out_.of_input.back();
      }
    }
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      const Input& input = step_.inputs[i];
      if (input.kind == InputKind::State) {
        const std::string& key = input.keys.front();
        const auto at = of_key.find(key.substr(0, key.rfind('.')));
        out_.of_input[i] = at == of_key.end() ? -1 : at->second;
      }
    }
  }

  // By value, the units that make or read it in forward, in their order.
  std::vector<std::vector<int32_t>> units_with_values() const {
    std::vector<std::vector<int32_t>> out(step_.values.size());
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].phase != Phase::Forward) {
        continue;
      }
      const auto add = [&](ValueId value) {
        std::vector<int32_t>& units = out[index(value)];
        if (units.empty() || units.back() != out_.of_node[i]) {
          units.push_back(out_.of_node[i]);
        }
      };
      for_each_operand(step_.nodes[i], add);
      std::for_each(
          step_.nodes[i].results.begin(), step_.nodes[i].results.end(), add);
    }
    return out;
  }

  // Backward goes from the last unit to the first: the latest unit, but no
  // later than `last`, that has something to do with what the node reads; -1:
  // none.
  static int32_t latest_with(
      const Node& node,
      const std::vector<std::vector<int32_t>>& units_with,
      int32_t last) {
    int32_t latest = -1;
    for_each_operand(node, [&](ValueId read) {
      for (const int32_t unit : units_with[index(read)]) {
        latest = unit <= last ? std::max(latest, unit) : latest;
      }
    });
    return latest;
  }

  // Backward and optimizer.
  void follow() {
    std::unordered_map<int32_t, int32_t> of_parameter;
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      if (step_.inputs[i].kind == InputKind::Parameter) {
        of_parameter[static_cast<int32_t>(step_.inputs[i].value)] =
            out_.of_input[i];
      }
    }
    const std::vector<std::vector<int32_t>> units_with = units_with_values();
    int32_t last = out_.size() - 1;
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase == Phase::Forward) {
        continue;
      }
      int32_t unit = -1;
      if (node.phase == Phase::Optimizer) {
        for_each_operand(node, [&](ValueId read) {
          const auto at = of_parameter.find(static_cast<int32_t>(read));
          unit = unit < 0 && at != of_parameter.end() ? at->second : unit;
        });
      } else {
        const std::string& name = step_[node.results.front()].name;
        unit = module_path(name).empty() ? -1 : out_.of_name(name);
        unit = unit < 0 ? latest_with(node, units_with, last) : unit;
      }
      last = unit < 0 ? last : unit;
      out_.of_node[i] = last;
    }
  }

  const Function& step_;
  StepUnits out_;
};

}  // namespace

int32_t StepUnits::of_name(std::string_view value_name) const {
  std::string_view path = module_path(value_name);
  while (true) {
    const auto at = of_module.find(std::string(path));
    if (at != of_module.end() && at->second >= 0) {
      return at->second;
    }
    const size_t dot = path.rfind('.');
    if (path.empty() || dot == std::string_view::npos) {
      return -1;
    }
    path = path.substr(0, dot);
  }
}

StepUnits step_units(const Function& step) { return UnitFinder(step).run(); }

}  // namespace weft
