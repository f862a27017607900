// SPDX-License-Identifier: Apache-2.0
#include "search/shrink.h"

#include "base/error.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace weft {
namespace {

// Units [begin, end) are equal.
struct Run {
  int32_t begin = 0;
  int32_t end = 0;
};

class Shrinking {
 public:
  Shrinking(const Graph& graph, const StepUnits& units)
      : graph_(graph),
        step_(step_of(graph)),
        units_(units),
        forward_(units.units.size()),
        later_(units.units.size()),
        is_dropped_(units.units.size(), false),
        now_(step_.values.size()) {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const auto unit = static_cast<size_t>(units.of_node[i]);
      const Phase phase = step_.nodes[i].phase;
      if (phase == Phase::Forward) {
        forward_[unit].push_back(static_cast<NodeId>(i));
      } else if (phase != Phase::Optimizer) {
        later_[unit].push_back(static_cast<NodeId>(i));
      }
    }
    for (size_t i = 0; i < now_.size(); ++i) {
      now_[i] = static_cast<ValueId>(i);
    }
  }

  ShrunkStep run() {
    ShrunkStep out;
    for (int32_t i = 0; i < units_.size(); ++i) {
      out.stands_for.push_back(i);
    }
    for (const Run& run : runs()) {
      if (!is_equal(run)) {
        continue;
      }
      const int32_t second = run.begin + 1;
      const bool is_last_equal = are_alike(
          later_[static_cast<size_t>(second)],
          later_[static_cast<size_t>(run.end - 1)]);
      const int32_t after = is_last_equal ? run.end - 1 : run.end - 2;
      for (int32_t unit = second + 1; unit < after; ++unit) {
        drop(unit, second, after);
        out.stands_for[static_cast<size_t>(unit)] = second;
      }
    }
    out.graph.name = graph_.name;
    out.graph.constants = graph_.constants;
    out.graph.functions.push_back(rest());
    renumber_units(out);
    return out;
  }

 private:
  std::vector<Run> runs() const {
    std::vector<Run> out;
    for (int32_t begin = 0; begin < units_.size();) {
      int32_t end = begin + 1;
      while (end < units_.size() && at(end).kind == at(begin).kind) {
        ++end;
      }
      if (end - begin > kCopiesKept) {
        out.push_back({begin, end});
      }
      begin = end;
    }
    return out;
  }

  const StepUnit& at(int32_t unit) const {
    return units_.units[static_cast<size_t>(unit)];
  }

  bool are_alike(
      const std::vector<NodeId>& a, const std::vector<NodeId>& b) const {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [&](NodeId i, NodeId k) {
             const Node& one = step_.nodes[index(i)];
             const Node& other = step_.nodes[index(k)];
             return one.op == other.op &&
                    one.results.size() == other.results.size() &&
                    std::equal(
                        one.results.begin(),
                        one.results.end(),
                        other.results.begin(),
                        [&](ValueId x, ValueId y) {
                          return step_[x].type == step_[y].type;
                        });
           });
  }

  // But for the first and the last, which stay.
  bool is_equal(const Run& run) const {
    const auto middle = static_cast<size_t>(run.begin + 1);
    for (int32_t unit = run.begin + 2; unit < run.end - 1; ++unit) {
      const auto i = static_cast<size_t>(unit);
      if (!are_alike(forward_[middle], forward_[i]) ||
          !are_alike(later_[middle], later_[i])) {
        return false;
      }
    }
    return true;
  }

  // Whoever reads something of the unit reads the same of one that stays and
  // was run before: in forward of the one `before` it, in backward of the one
  // `after` it.
  void drop(int32_t unit, int32_t before, int32_t after) {
    const auto i = static_cast<size_t>(unit);
    is_dropped_[i] = true;
    stand_in(forward_[i], forward_[static_cast<size_t>(before)]);
    stand_in(later_[i], later_[static_cast<size_t>(after)]);
  }

  void stand_in(
      const std::vector<NodeId>& gone, const std::vector<NodeId>& instead) {
    for (size_t i = 0; i < gone.size(); ++i) {
      const Node& node = step_.nodes[index(gone[i])];
      const Node& other = step_.nodes[index(instead[i])];
      for (size_t k = 0; k < node.results.size(); ++k) {
        now_[index(node.results[k])] = other.results[k];
      }
    }
  }

  Function rest() {
    Function out;
    out.name = step_.name;
    // The others are nobody's, and `renumber` leaves them out.
    out.values.resize(step_.values.size());
    std::vector<bool> is_read(step_.values.size(), false);
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (!is_dropped_[static_cast<size_t>(units_.of_node[i])]) {
        for_each_operand(
            step_.nodes[i], [&](ValueId read) { is_read[index(read)] = true; });
      }
    }
    std::unordered_set<std::string_view> gone;
    std::vector<Input> inputs;
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      const Input& input = step_.inputs[i];
      const int32_t unit = units_.of_input[i];
      const bool is_kept_between = input.kind == InputKind::Parameter ||
                                   input.kind == InputKind::Buffer ||
                                   input.kind == InputKind::State;
      if (is_kept_between && unit >= 0 &&
          is_dropped_[static_cast<size_t>(unit)] &&
          !is_read[index(input.value)]) {
        gone.insert(input.keys.front());
        is_input_kept_.push_back(false);
      } else {
        inputs.push_back(input);
        out[input.value] = step_[input.value];
        is_input_kept_.push_back(true);
      }
    }
    out.inputs = std::move(inputs);
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (is_dropped_[static_cast<size_t>(units_.of_node[i])]) {
        continue;
      }
      Node node = step_.nodes[i];
      for (const ValueId result : node.results) {
        out[result] = step_[result];
      }
      replace_operands(node, now_);
      node.releases.clear();
      node.overwrites = ValueId::None;
      out.nodes.push_back(std::move(node));
    }
    for (const Output& output : step_.outputs) {
      const ValueId now = now_[index(output.value)];
      const NodeId maker = step_[now].node;
      const bool is_made =
          maker == NodeId::None ||
          !is_dropped_[static_cast<size_t>(units_.of_node[index(maker)])];
      if (is_made && !gone.contains(output.key)) {
        out.outputs.push_back({output.kind, output.key, now});
      }
    }
    renumber(out);
    return out;
  }

  // The units that are left keep their places in the chain.
  void renumber_units(ShrunkStep& out) const {
    std::vector<int32_t> now(units_.units.size(), -1);
    const Function& step = step_of(out.graph);
    for (int32_t i = 0; i < units_.size(); ++i) {
      if (!is_dropped_[static_cast<size_t>(i)]) {
        now[static_cast<size_t>(i)] = out.units.size();
        out.units.units.push_back(at(i));
      }
    }
    size_t next = 0;
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const int32_t unit = now[static_cast<size_t>(units_.of_node[i])];
      if (unit < 0) {
        continue;
      }
      out.units.of_node.push_back(unit);
      StepUnit& mine = out.units.units[static_cast<size_t>(unit)];
      const auto node = static_cast<NodeId>(next++);
      if (step_.nodes[i].phase == Phase::Forward) {
        mine.first = static_cast<NodeId>(i) == at(units_.of_node[i]).first
                         ? node
                         : mine.first;
        mine.last = node;
      }
    }
    WEFT_CHECK(next == step.nodes.size(), "units lost nodes");
    for (size_t i = 0; i < units_.of_input.size(); ++i) {
      if (is_input_kept_[i]) {
        const int32_t unit = units_.of_input[i];
        out.units.of_input.push_back(
            unit < 0 ? -1 : now[static_cast<size_t>(unit)]);
      }
    }
    for (const auto& [path, unit] : units_.of_module) {
      const int32_t mine = unit < 0 ? -1 : now[static_cast<size_t>(unit)];
      if (unit < 0 || mine >= 0) {
        out.units.of_module.emplace(path, mine);
      }
    }
    for (int32_t& unit : out.stands_for) {
      unit = now[static_cast<size_t>(unit)];
    }
  }

  const Graph& graph_;
  const Function& step_;
  const StepUnits& units_;
  // By unit, its nodes; backward and what it repeats in one list.
  std::vector<std::vector<NodeId>> forward_;
  std::vector<std::vector<NodeId>> later_;
  std::vector<bool> is_dropped_;
  std::vector<bool> is_input_kept_;
  // By value, the one that is read in its place.
  std::vector<ValueId> now_;
};

}  // namespace

ShrunkStep shrink(const Graph& graph, const StepUnits& units) {
  return Shrinking(graph, units).run();
}

}  // namespace weft
