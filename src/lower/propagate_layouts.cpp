// SPDX-License-Identifier: Apache-2.0
// A layout for every value, and for every node how it is computed.
//
// The nodes are gone through in order, and each is computed in the way for
// which the fewest bytes travel (choose_node.h).
//
// Where all readers need less of a value than was made, its node is asked to
// make just that in the next round (masks, constants, gradients of expanded
// values).
#include "base/error.h"
#include "lower/assignment.h"
#include "lower/choose_node.h"
#include "lower/expand_nodes.h"
#include "lower/move.h"
#include "lower/node_choices.h"
#include "lower/pass.h"
#include "lower/time_layout.h"
#include "ops/op_def.h"
#include "plan/pattern_index.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

constexpr int kMostRounds = 4;

// Where a value is besides where it rests, in forward and after it: what is
// gathered in forward is not kept (shard.cpp).
struct Moved {
  std::vector<Layout> in_forward;
  std::vector<Layout> later;
};

class Propagation {
 public:
  explicit Propagation(Lowering& lowering)
      : lowering_(lowering),
        mesh_(lowering.mesh),
        step_(step_of(lowering.graph)),
        made_(lowering.layouts),
        resting_(lowering.resting),
        assignments_(lowering.assignments),
        decided_(step_.values.size()),
        is_settled_(step_.values.size(), false),
        hints_(step_.values.size()),
        of_parameter_(step_.values.size(), false),
        is_for_update_(step_.values.size(), false),
        rules_(lowering.memo->rules().rules(step_)),
        choices_(lowering.memo->choices(mesh_, lowering.plan.time)),
        chosen_(step_.nodes.size(), nullptr) {
    std::unordered_map<std::string_view, const Decision*> reads;
    for (const Decision& one : lowering.reads) {
      reads.emplace(one.pattern, &one);
    }
    const PatternIndex decisions(lowering.plan.decisions);
    for (size_t i = 0; i < step_.values.size(); ++i) {
      const Value& value = step_.values[i];
      made_.push_back(replicated(static_cast<int>(value.type.sizes.size())));
      const auto read = reads.find(value.name);
      const Decision* decision =
          read != reads.end()
              ? read->second
              : decision_for(lowering.plan, decisions, value.name);
      if (decision != nullptr) {
        decided_[i] =
            canonical(only_on(decision->layout, mesh_), value.type, mesh_);
      }
    }
    resting_ = made_;
    assignments_.resize(step_.nodes.size());
    std::unordered_map<std::string_view, ValueId> parameters;
    for (const Input& input : step_.inputs) {
      place_input(input);
      if (input.kind == InputKind::Parameter) {
        parameters.emplace(input.keys.front(), input.value);
      }
    }
    for (const Input& input : step_.inputs) {
      place_state(input, parameters);
    }
    hint_gradients();
  }

  // The nodes that should be expanded first, if there are any.
  std::set<size_t> run() {
    for (int round = 0; round < kMostRounds; ++round) {
      moved_.assign(step_.values.size(), {});
      for (size_t i = 0; i < step_.nodes.size(); ++i) {
        visit(i);
      }
      if (!expanded_.empty() || !settle()) {
        break;
      }
    }
    return expanded_;
  }

 private:
  void place_input(const Input& input) {
    const size_t i = index(input.value);
    of_parameter_[i] = input.kind == InputKind::Parameter;
    if (const std::optional<Layout>& layout = decided_[i]) {
      WEFT_CHECK_USER(
          layout->partial.empty() || input.kind == InputKind::State,
          "%",
          step_.values[i].name,
          ": an input cannot be a partial sum");
      made_[i] = resting_[i] = *layout;
    }
  }

  // What no decision names of an optimizer's state lies as its parameter does.
  void place_state(
      const Input& state,
      const std::unordered_map<std::string_view, ValueId>& parameters) {
    const size_t i = index(state.value);
    if (state.kind != InputKind::State || decided_[i]) {
      return;
    }
    const std::string_view key = state.keys.front();
    const auto parameter = parameters.find(key.substr(0, key.rfind('.')));
    if (parameter != parameters.end() &&
        step_[parameter->second].type.sizes == step_.values[i].type.sizes) {
      made_[i] = resting_[i] = resting_[index(parameter->second)];
    }
  }

  // What the optimizer reads beside a parameter should lie as that does.
  void hint_gradients() {
    for (size_t i = step_.nodes.size(); i-- > 0;) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Optimizer) {
        continue;
      }
      std::optional<Layout> layout;
      const Dims* sizes = nullptr;
      const auto take = [&](ValueId value, const std::optional<Layout>& from) {
        if (!layout && from && !axes_of(*from).empty()) {
          layout = from;
          sizes = &step_[value].type.sizes;
        }
      };
      for (const ValueId read : operands(node)) {
        is_for_update_[index(read)] = true;
        if (step_[read].node == NodeId::None) {
          take(read, resting_[index(read)]);
        }
      }
      for (const ValueId result : node.results) {
        take(result, hints_[index(result)]);
      }
      for (const ValueId read : operands(node)) {
        if (layout && step_[read].node != NodeId::None &&
            step_[read].type.sizes == *sizes && !decided_[index(read)]) {
          hints_[index(read)] = layout;
        }
      }
    }
  }

  // Where the node finds the value besides where it rests.
  const std::vector<Layout>& moved(const Node& node, ValueId value) const {
    const Moved& all = moved_[index(value)];
    return is_later(node.phase) ? all.later : all.in_forward;
  }

  void remember(const Node& node, ValueId value, const Layout& layout) {
    Moved& both = moved_[index(value)];
    std::vector<Layout>& all =
        is_later(node.phase) ? both.later : both.in_forward;
    if (layout != resting_[index(value)] &&
        std::find(all.begin(), all.end(), layout) == all.end()) {
      all.push_back(layout);
    }
  }

  // A view of what was moved is there too.
  void remember_views(const Node& node, const Rule& rule) {
    const std::vector<ValueId> read = operands(node);
    if (!is_view(node) || read.size() != 1 || node.results.size() != 1) {
      return;
    }
    // The result is another value than the operand.
    for (const Layout& layout : moved(node, read.front())) {
      const auto assignment = assignment_from(mesh_, step_, node, rule, layout);
      if (assignment) {
        remember(
            node,
            node.results.front(),
            result_layout(
                mesh_, rule, *assignment, 0, step_[node.results.front()].type));
      }
    }
  }

  // What the result should become, as far as anybody has said so.
  const Layout* target(ValueId value) const {
    if (const std::optional<Layout>& layout = decided_[index(value)]) {
      return &*layout;
    }
    const std::optional<Layout>& hint = hints_[index(value)];
    return hint ? &*hint : nullptr;
  }

  bool may_expand(const Node& node) const {
    const OpDef* def = find_op(node.op);
    return def != nullptr && def->expand != nullptr &&
           !lowering_.unexpanded.contains(step_[node.results.front()].name);
  }

  Situation situation(size_t number) const {
    const Node& node = step_.nodes[number];
    Situation out = {
        .rule = rules_[number],
        .operands = {},
        .results = {},
        .may_expand = may_expand(node)};
    out.operands.reserve(node.args.size());
    for_each_operand(node, [&](ValueId value) {
      out.operands.push_back(
          {.rests = &resting_[index(value)],
           .moved = &moved(node, value),
           .of_parameter = of_parameter_[index(value)]});
    });
    out.results.reserve(node.results.size());
    for (const ValueId value : node.results) {
      out.results.push_back(
          {.wanted = target(value),
           .is_for_update = is_for_update_[index(value)]});
    }
    return out;
  }

  void visit(size_t number) {
    const Situation now = situation(number);
    const NodeChoice* choice = choices_.find(now);
    if (choice == nullptr) {
      choice = &choices_.add(
          now,
          choose_for_node(
              mesh_, lowering_.plan.time, step_, step_.nodes[number], now));
    }
    if (choice->is_expanded) {
      expanded_.insert(number);
    }
    // What the round before has put down stays as it is.
    if (chosen_[number] != choice) {
      chosen_[number] = choice;
      assignments_[number] = choice->assignment;
      for (size_t i = 0; i < choice->made.size(); ++i) {
        const size_t value = index(step_.nodes[number].results[i]);
        made_[value] = choice->made[i];
        resting_[value] = choice->made[i];
      }
    }
    set(number, *choice);
  }

  void set(size_t number, const NodeChoice& choice) {
    const Node& node = step_.nodes[number];
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const size_t value = index(node.results[i]);
      if (const std::optional<Layout>& decided = decided_[value]) {
        resting_[value] = resting_layout(
            made_[value],
            *decided,
            is_for_update_[value],
            step_.values[value].type,
            mesh_,
            lowering_.plan.time);
      }
      if (is_settled_[value]) {
        // It was settled when the node made another partial sum.
        std::erase_if(resting_[value].partial, [&](const std::string& axis) {
          return !contains(made_[value].partial, axis);
        });
      }
      for (const std::string& axis : resting_[value].partial) {
        WEFT_CHECK_USER(
            contains(made_[value].partial, axis),
            "%",
            step_.values[value].name,
            ": the plan says ",
            print(resting_[value]),
            ", and it is made as ",
            print(made_[value]),
            ", which is no partial sum over ",
            axis);
      }
      of_parameter_[value] =
          is_view(node) && !read.empty() && of_parameter_[index(read.front())];
    }
    for (size_t i = 0; i < read.size(); ++i) {
      remember(node, read[i], choice.needed[i]);
    }
    remember_views(node, *rules_[number]);
  }

  // For every value, the layouts in which it is read.
  std::vector<std::vector<Layout>> needed() const {
    std::vector<std::vector<Layout>> all(step_.values.size());
    for (size_t n = 0; n < step_.nodes.size(); ++n) {
      const std::vector<ValueId> read = operands(step_.nodes[n]);
      for (size_t i = 0; i < read.size(); ++i) {
        std::vector<Layout>& mine = all[index(read[i])];
        const Layout& layout = chosen_[n]->needed[i];
        if (std::find(mine.begin(), mine.end(), layout) == mine.end()) {
          mine.push_back(layout);
        }
      }
    }
    return all;
  }

  // After a round: asks for values as their readers need them. True when that
  // is news.
  bool settle() {
    std::vector<std::vector<Layout>> all = needed();
    for (const Output& output : step_.outputs) {
      Layout whole = resting_[index(output.value)];
      whole.partial.clear();
      all[index(output.value)].push_back(std::move(whole));
    }
    bool is_new = false;
    for (size_t i = 0; i < step_.values.size(); ++i) {
      if (step_.values[i].node == NodeId::None || decided_[i] ||
          all[i].empty()) {
        continue;
      }
      if (resting_[i].partial.empty()) {
        is_new = want_less(i, all[i]) || is_new;
      } else {
        is_new = sum_for_all(i, all[i]) || is_new;
      }
    }
    return is_new;
  }

  // Where all need just a part of it, it should be made so.
  bool want_less(size_t value, const std::vector<Layout>& all) {
    if (all.size() != 1 || hints_[value] || all.front() == resting_[value] ||
        move_bytes(
            mesh_, step_.values[value].type, resting_[value], all.front()) >
            0) {
      return false;
    }
    hints_[value] = all.front();
    return true;
  }

  // A partial sum that someone needs summed is summed for everyone.
  bool sum_for_all(size_t value, const std::vector<Layout>& all) {
    const auto least = std::min_element(
        all.begin(), all.end(), [](const Layout& a, const Layout& b) {
          return a.partial.size() < b.partial.size();
        });
    const bool is_carried =
        std::any_of(all.begin(), all.end(), [&](const Layout& layout) {
          return layout.partial.size() > least->partial.size();
        });
    if (is_carried) {
      decided_[value] = *least;
      is_settled_[value] = true;
    }
    return is_carried;
  }

  Lowering& lowering_;
  const Mesh& mesh_;
  const Function& step_;
  std::vector<Layout>& made_;
  std::vector<Layout>& resting_;
  std::vector<Assignment>& assignments_;
  // By the plan.
  std::vector<std::optional<Layout>> decided_;
  // Where a value was decided here, and not by the plan.
  std::vector<bool> is_settled_;
  // By readers.
  std::vector<std::optional<Layout>> hints_;
  // A parameter, or a view of one.
  std::vector<bool> of_parameter_;
  // Read by the optimizer.
  std::vector<bool> is_for_update_;
  const std::vector<const Rule*> rules_;
  NodeChoices& choices_;
  // By node, of this round.
  std::vector<const NodeChoice*> chosen_;
  // Nodes to expand.
  std::set<size_t> expanded_;
  // For every value, where nodes of this round have had it moved.
  std::vector<Moved> moved_;
};

}  // namespace

void propagate_layouts(Lowering& lowering) {
  // Every round but the last expands a node of the captured step, and what
  // nodes are expanded into is not expanded again.
  const size_t most = step_of(lowering.graph).nodes.size();
  for (size_t round = 0; round <= most; ++round) {
    lowering.layouts.clear();
    lowering.assignments.clear();
    const std::set<size_t> expanded = Propagation(lowering).run();
    if (expanded.empty()) {
      return;
    }
    expand_nodes(lowering, expanded);
  }
  WEFT_CHECK(false, "expanding nodes came to no end");
}

}  // namespace weft
