// SPDX-License-Identifier: Apache-2.0
// A layout for every value, and for every node how it is computed.
//
// Going through the nodes in order, each axis of the mesh may split a factor of
// the node's rule that one of its operands, or the plan for its result, has
// split already; or stay a partial sum, where the operator is linear; or do
// nothing. Of all combinations the one is taken for which the fewest bytes
// travel: operands to where the node needs them, results to where the plan
// wants them. Where operands lie so that ranks can pass blocks round (ring.h),
// they do: those bytes travel while the node is computed. Parameters lie where
// the plan put them and cost much to move; everything else goes to them.
//
// Where all readers need less of a value than was made, its node is asked to
// make just that in the next round (masks, constants, gradients of expanded
// values).
#include "base/error.h"
#include "lower/assignment.h"
#include "lower/expand_nodes.h"
#include "lower/halo.h"
#include "lower/move.h"
#include "lower/node_choices.h"
#include "lower/pass.h"
#include "lower/ring.h"
#include "lower/time_layout.h"
#include "ops/op_def.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

constexpr int kMostRounds = 4;
// A parameter is moved rather than nothing else will do.
constexpr double kParameterWeight = 1000;
// So is a value that was split when its axis then has nothing to do: all ranks
// would do the same work.
constexpr double kIdleWeight = 8;
// Between plans that move as much, less work a rank is better.
constexpr double kWorkWeight = 1e-3;
// What travels while the node is computed costs little.
constexpr double kHiddenWeight = 1e-2;

// Operations an element up to which an operator is little work.
constexpr int64_t kCheapOperations = 32;

constexpr int kNothing = -1;
constexpr int kCarried = -2;
constexpr int kPassedRound = -3;

// Where a value is besides where it rests, in forward and after it: what is
// gathered in forward is not kept (shard.cpp).
struct Moved {
  std::vector<Layout> in_forward;
  std::vector<Layout> later;
};

// What the axis may do at one node.
struct Choice {
  std::string axis;
  // Factors, kNothing, kCarried or kPassedRound.
  std::vector<int> options;
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
    for (size_t i = 0; i < step_.values.size(); ++i) {
      const Value& value = step_.values[i];
      made_.push_back(replicated(static_cast<int>(value.type.sizes.size())));
      const auto read = reads.find(value.name);
      const Decision* decision = read != reads.end()
                                     ? read->second
                                     : decision_for(lowering.plan, value.name);
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

  // What it costs the node to have an operand there: nothing, where an earlier
  // reader has had it moved already.
  double operand_bytes(
      const Node& node, ValueId value, const Layout& to) const {
    const std::vector<Layout>& all = moved(node, value);
    const bool is_there = std::find(all.begin(), all.end(), to) != all.end();
    return is_there ? 0 : bytes_to(value, resting_[index(value)], to);
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

  double bytes_to(ValueId value, const Layout& from, const Layout& to) const {
    return from == to ? 0 : move_bytes(mesh_, step_[value].type, from, to);
  }

  double local_bytes(ValueId value, const Layout& layout) const {
    auto bytes = static_cast<double>(element_count(step_[value].type)) *
                 static_cast<double>(element_bytes(step_[value].type.dtype));
    for (const Levels& levels : layout.dims) {
      bytes /= static_cast<double>(ways(mesh_, axes_of(levels)));
    }
    return bytes;
  }

  // Whether partial sums over the axis may go through the node.
  bool passes_on(const Node& node, const std::string& axis) const {
    const std::vector<ValueId> read = operands(node);
    std::vector<size_t> partial;
    for (size_t i = 0; i < read.size(); ++i) {
      if (contains(resting_[index(read[i])].partial, axis)) {
        partial.push_back(i);
      }
    }
    switch (linear_of(node)) {
      case Linear::No:
        return false;
      case Linear::First:
        return partial.size() == 1 && partial.front() == 0;
      case Linear::Each:
        return partial.size() == 1;
      case Linear::All:
        return partial.size() == read.size();
    }
    WEFT_CHECK(false, "unknown linearity");
  }

  // What the result should become, as far as anybody has said so.
  const Layout* target(ValueId value) const {
    if (const std::optional<Layout>& layout = decided_[index(value)]) {
      return &*layout;
    }
    const std::optional<Layout>& hint = hints_[index(value)];
    return hint ? &*hint : nullptr;
  }

  // The same, where the value is made so. What the optimizer reads is of all
  // parts.
  Layout in_time(
      ValueId value, const Layout& made, const Layout& wanted) const {
    return is_for_update_[index(value)] ? wanted
                                        : with_time_of(
                                              made,
                                              wanted,
                                              step_[value].type,
                                              mesh_,
                                              lowering_.plan.time);
  }

  // Whether an operand is split over the axis where it must be whole: always,
  // or since there is too little for windows to share.
  bool meets_whole(
      const std::string& axis,
      const Node& node,
      const Rule& rule,
      const std::vector<Suggestion>& suggestions) const {
    return std::any_of(
        suggestions.begin(), suggestions.end(), [&](const Suggestion& one) {
          const FactorKind kind =
              rule.factors[static_cast<size_t>(one.factor)].kind;
          return one.by_operand && contains(axes_of(one.levels), axis) &&
                 (kind == FactorKind::Whole ||
                  (kind == FactorKind::Halo &&
                   !can_split(
                       mesh_, step_, node, rule, one.factor, one.levels)));
        });
  }

  // Whether operands are split over the axis along both factors of the ring.
  static bool meets_ring(
      const std::string& axis,
      const std::optional<Ring>& ring,
      const std::vector<Suggestion>& suggestions) {
    const auto is_split = [&](int factor) {
      return std::any_of(
          suggestions.begin(), suggestions.end(), [&](const Suggestion& one) {
            return one.by_operand && one.factor == factor &&
                   contains(axes_of(one.levels), axis);
          });
    };
    return ring && is_split(ring->stays) && is_split(ring->passes);
  }

  bool may_expand(const Node& node) const {
    const OpDef* def = find_op(node.op);
    return def != nullptr && def->expand != nullptr &&
           !lowering_.unexpanded.contains(step_[node.results.front()].name);
  }

  // Whether the node should become several that can be split where this one
  // must be whole: where that is little work, else it is better split
  // elsewhere.
  bool should_expand(
      const Node& node,
      const Rule& rule,
      const std::vector<Suggestion>& suggestions) const {
    if (!may_expand(node)) {
      return false;
    }
    int64_t largest = 1;
    for (const ValueId read : operands(node)) {
      largest = std::max(largest, element_count(step_[read].type));
    }
    return flops_of(step_, node) <= kCheapOperations * largest &&
           std::any_of(
               mesh_.axes.begin(), mesh_.axes.end(), [&](const Axis& axis) {
                 return meets_whole(axis.name, node, rule, suggestions);
               });
  }

  std::vector<Choice> choices(
      const Node& node,
      const Rule& rule,
      std::vector<Suggestion>& suggestions) const {
    const auto add =
        [&](TensorPlace place, ValueId value, const Layout& layout) {
          for (Suggestion& one :
               suggest(mesh_, rule, place, step_[value].type, layout)) {
            one.by_operand = !place.in_result;
            suggestions.push_back(std::move(one));
          }
        };
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      add({false, static_cast<int>(i)}, read[i], resting_[index(read[i])]);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (const Layout* wanted = target(node.results[i])) {
        add({true, static_cast<int>(i)}, node.results[i], *wanted);
      }
    }
    std::vector<Choice> out;
    for (const Axis& axis : mesh_.axes) {
      Choice choice = {axis.name, {}};
      const bool is_partial =
          std::any_of(read.begin(), read.end(), [&](ValueId value) {
            return contains(resting_[index(value)].partial, axis.name);
          });
      if (is_partial && passes_on(node, axis.name)) {
        choice.options.push_back(kCarried);
      }
      if (meets_ring(axis.name, find_ring(node, rule), suggestions)) {
        choice.options.push_back(kPassedRound);
      }
      for (const Suggestion& one : suggestions) {
        if (contains(axes_of(one.levels), axis.name) &&
            can_split(mesh_, step_, node, rule, one.factor, {}) &&
            std::find(
                choice.options.begin(), choice.options.end(), one.factor) ==
                choice.options.end()) {
          choice.options.push_back(one.factor);
        }
      }
      if (meets_whole(axis.name, node, rule, suggestions)) {
        // Whatever else the node can split.
        for (size_t i = 0; i < rule.factors.size(); ++i) {
          const auto factor = static_cast<int>(i);
          if (rule.factors[i].size > 1 &&
              can_split(mesh_, step_, node, rule, factor, {}) &&
              std::find(choice.options.begin(), choice.options.end(), factor) ==
                  choice.options.end()) {
            choice.options.push_back(factor);
          }
        }
      }
      choice.options.push_back(kNothing);
      if (choice.options.size() > 1) {
        out.push_back(std::move(choice));
      }
    }
    return out;
  }

  // The factor split over the axes as an operand has it that is split over just
  // these, or over more of them; else in the order of the mesh.
  Levels split_as_suggested(
      const Node& node,
      const Rule& rule,
      int factor,
      const Axes& axes,
      bool is_passed_round,
      const std::vector<Suggestion>& suggestions) const {
    for (const Suggestion& one : suggestions) {
      const Axes theirs = axes_of(one.levels);
      if (one.factor == factor &&
          std::is_permutation(
              theirs.begin(), theirs.end(), axes.begin(), axes.end()) &&
          (is_passed_round ||
           can_split(mesh_, step_, node, rule, factor, one.levels))) {
        return one.levels;
      }
    }
    const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
    for (const Suggestion& one : suggestions) {
      Levels levels = one.levels;
      for (Level& level : levels) {
        std::erase_if(level.axes, [&](const std::string& axis) {
          return !contains(axes, axis);
        });
      }
      if (one.factor == factor && axes_of(levels).size() == axes.size()) {
        levels = canonical(levels, size, mesh_);
        if (is_passed_round ||
            can_split(mesh_, step_, node, rule, factor, levels)) {
          return levels;
        }
      }
    }
    return canonical(
        split_over(axes),
        rule.factors[static_cast<size_t>(factor)].size,
        mesh_);
  }

  std::optional<Assignment> assignment_of(
      const Node& node,
      const Rule& rule,
      const std::vector<Choice>& choices,
      const std::vector<size_t>& chosen,
      const std::vector<Suggestion>& suggestions) const {
    Assignment out;
    std::vector<Axes> axes(rule.factors.size());
    for (size_t i = 0; i < choices.size(); ++i) {
      const int option = choices[i].options[chosen[i]];
      if (option == kCarried) {
        out.carried.push_back(choices[i].axis);
      } else if (option == kPassedRound) {
        out.ring = find_ring(node, rule);
        if (out.ring) {
          axes[static_cast<size_t>(out.ring->stays)].push_back(choices[i].axis);
          axes[static_cast<size_t>(out.ring->passes)].push_back(
              choices[i].axis);
        }
      } else if (option != kNothing) {
        axes[static_cast<size_t>(option)].push_back(choices[i].axis);
      }
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto factor = static_cast<int>(i);
      const bool is_passed_round =
          out.ring && (factor == out.ring->stays || factor == out.ring->passes);
      out.factors.push_back(
          axes[i].empty()
              ? Levels()
              : split_as_suggested(
                    node, rule, factor, axes[i], is_passed_round, suggestions));
      if (!axes[i].empty() && !is_passed_round &&
          !can_split(mesh_, step_, node, rule, factor, out.factors.back())) {
        return std::nullopt;
      }
    }
    if (out.ring && !can_pass_round(mesh_, node, rule, out)) {
      return std::nullopt;
    }
    return out;
  }

  // Whether an axis that splits the layout does nothing at the node.
  static bool leaves_idle(const Layout& now, const Assignment& assignment) {
    const auto is_used = [&](const std::string& axis) {
      return std::any_of(
          assignment.factors.begin(),
          assignment.factors.end(),
          [&](const Levels& levels) {
            return contains(axes_of(levels), axis);
          });
    };
    return std::any_of(
        now.dims.begin(), now.dims.end(), [&](const Levels& levels) {
          const Axes axes = axes_of(levels);
          return !std::all_of(axes.begin(), axes.end(), is_used);
        });
  }

  // Bytes of what windows touch beyond a piece.
  double borders(
      TensorPlace place,
      ValueId value,
      const Rule& rule,
      const Assignment& assignment) const {
    return splits_windows(rule, assignment)
               ? halo_bytes(mesh_, rule, assignment, place, step_[value].type)
               : 0;
  }

  double cost(
      const Node& node, const Rule& rule, const Assignment& assignment) const {
    double total =
        assignment.ring
            ? kHiddenWeight * ring_bytes(mesh_, step_, node, rule, assignment)
            : 0;
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      const Layout& now = resting_[index(read[i])];
      const Layout needed = operand_layout(
          mesh_,
          rule,
          assignment,
          static_cast<int>(i),
          step_[read[i]].type,
          now);
      total += operand_bytes(node, read[i], needed) *
               (of_parameter_[index(read[i])]  ? kParameterWeight
                : leaves_idle(now, assignment) ? kIdleWeight
                                               : 1);
      total += kWorkWeight * local_bytes(read[i], needed);
      total += borders({false, static_cast<int>(i)}, read[i], rule, assignment);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId value = node.results[i];
      const Layout made = result_layout(
          mesh_, rule, assignment, static_cast<int>(i), step_[value].type);
      Layout wanted = made;
      wanted.partial.clear();
      if (const Layout* known = target(value)) {
        wanted = in_time(value, made, *known);
        // Nobody can make a sum partial again.
        std::erase_if(wanted.partial, [&](const std::string& axis) {
          return !contains(made.partial, axis);
        });
      }
      total += bytes_to(value, made, wanted);
      total += kWorkWeight * local_bytes(value, made);
      total += borders({true, static_cast<int>(i)}, value, rule, assignment);
    }
    return total;
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

  NodeChoice choose(size_t number) const {
    const Node& node = step_.nodes[number];
    const Rule& rule = *rules_[number];
    std::vector<Suggestion> suggestions;
    const std::vector<Choice> all = choices(node, rule, suggestions);
    std::vector<size_t> chosen(all.size(), 0);
    Assignment best;
    best.factors.resize(rule.factors.size());
    double least = -1;
    while (true) {
      if (const auto one =
              assignment_of(node, rule, all, chosen, suggestions)) {
        const double now = all.empty() ? 0 : cost(node, rule, *one);
        if (least < 0 || now < least) {
          least = now;
          best = *one;
        }
      }
      size_t i = 0;
      while (i < chosen.size() && ++chosen[i] == all[i].options.size()) {
        chosen[i++] = 0;
      }
      if (i == chosen.size()) {
        break;
      }
    }
    const bool is_expanded =
        !best.ring && should_expand(node, rule, suggestions);
    NodeChoice out = {
        .assignment = std::move(best), .is_expanded = is_expanded};
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      out.needed.push_back(operand_layout(
          mesh_,
          rule,
          out.assignment,
          static_cast<int>(i),
          step_[read[i]].type,
          resting_[index(read[i])]));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      out.made.push_back(result_layout(
          mesh_,
          rule,
          out.assignment,
          static_cast<int>(i),
          step_[node.results[i]].type));
    }
    return out;
  }

  void visit(size_t number) {
    const Situation now = situation(number);
    const NodeChoice* choice = choices_.find(now);
    if (choice == nullptr) {
      choice = &choices_.add(now, choose(number));
    }
    if (choice->is_expanded) {
      expanded_.insert(number);
    }
    chosen_[number] = choice;
    set(number, *choice);
  }

  void set(size_t number, const NodeChoice& choice) {
    const Node& node = step_.nodes[number];
    assignments_[number] = choice.assignment;
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const size_t value = index(node.results[i]);
      made_[value] = choice.made[i];
      resting_[value] = made_[value];
      if (const std::optional<Layout>& decided = decided_[value]) {
        resting_[value] = in_time(node.results[i], made_[value], *decided);
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
        bytes_to(static_cast<ValueId>(value), resting_[value], all.front()) >
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
  for (int round = 0; round < kMostRounds * kMostRounds; ++round) {
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
