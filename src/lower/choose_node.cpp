// SPDX-License-Identifier: Apache-2.0
#include "lower/choose_node.h"

#include "base/error.h"
#include "lower/halo.h"
#include "lower/move.h"
#include "lower/ring.h"
#include "lower/time_layout.h"
#include "ops/op_def.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {
namespace {

// A parameter is moved rather than nothing else will do: it lies where the plan
// put it, and everything else goes there.
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

// What the axis may do at the node.
struct Choice {
  std::string axis;
  // Factors, kNothing, kCarried or kPassedRound.
  std::vector<int> options;
};

// Whether operands are split over the axis along both factors of the ring.
bool meets_ring(
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

// Whether an axis that splits the layout does nothing at the node.
bool leaves_idle(const Layout& now, const Assignment& assignment) {
  const auto is_used = [&](const std::string& axis) {
    return std::any_of(
        assignment.factors.begin(),
        assignment.factors.end(),
        [&](const Levels& levels) { return contains(axes_of(levels), axis); });
  };
  return std::any_of(
      now.dims.begin(), now.dims.end(), [&](const Levels& levels) {
        const Axes axes = axes_of(levels);
        return !std::all_of(axes.begin(), axes.end(), is_used);
      });
}

class Choosing {
 public:
  Choosing(
      const Mesh& mesh,
      const Mesh& time,
      const Function& step,
      const Node& node,
      const Situation& situation)
      : mesh_(mesh),
        time_(time),
        step_(step),
        node_(node),
        situation_(situation),
        rule_(*situation.rule),
        read_(operands(node)),
        ring_(find_ring(node, rule_)) {
    suggest_all();
  }

  NodeChoice run() const {
    NodeChoice out = {.assignment = best()};
    out.is_expanded = !out.assignment.ring && should_expand();
    for (size_t i = 0; i < read_.size(); ++i) {
      out.needed.push_back(needed(out.assignment, i));
    }
    for (size_t i = 0; i < node_.results.size(); ++i) {
      out.made.push_back(made(out.assignment, i));
    }
    return out;
  }

 private:
  void suggest_all() {
    const auto add =
        [&](TensorPlace place, ValueId value, const Layout& layout) {
          for (Suggestion& one :
               suggest(mesh_, rule_, place, step_[value].type, layout)) {
            one.by_operand = !place.in_result;
            suggestions_.push_back(std::move(one));
          }
        };
    for (size_t i = 0; i < read_.size(); ++i) {
      add({false, static_cast<int>(i)}, read_[i], rests(i));
    }
    for (size_t i = 0; i < node_.results.size(); ++i) {
      if (const Layout* wanted = situation_.results[i].wanted) {
        add({true, static_cast<int>(i)}, node_.results[i], *wanted);
      }
    }
  }

  const Layout& rests(size_t operand) const {
    return *situation_.operands[operand].rests;
  }

  Layout needed(const Assignment& assignment, size_t operand) const {
    return operand_layout(
        mesh_,
        rule_,
        assignment,
        static_cast<int>(operand),
        step_[read_[operand]].type,
        rests(operand));
  }

  Layout made(const Assignment& assignment, size_t result) const {
    return result_layout(
        mesh_,
        rule_,
        assignment,
        static_cast<int>(result),
        step_[node_.results[result]].type);
  }

  bool can_be_split(int factor, const Levels& levels) const {
    return can_split(mesh_, step_, node_, rule_, factor, levels);
  }

  // Whether partial sums over the axis may go through the node.
  bool passes_on(const std::string& axis) const {
    std::vector<size_t> partial;
    for (size_t i = 0; i < read_.size(); ++i) {
      if (contains(rests(i).partial, axis)) {
        partial.push_back(i);
      }
    }
    if (partial.empty()) {
      return false;
    }
    switch (linear_of(node_)) {
      case Linear::No:
        return false;
      case Linear::First:
        return partial.size() == 1 && partial.front() == 0;
      case Linear::Each:
        return partial.size() == 1;
      case Linear::All:
        return partial.size() == read_.size();
    }
    WEFT_CHECK(false, "unknown linearity");
  }

  // Whether an operand is split over the axis where it must be whole: always,
  // or since there is too little for windows to share.
  bool meets_whole(const std::string& axis) const {
    return std::any_of(
        suggestions_.begin(), suggestions_.end(), [&](const Suggestion& one) {
          const FactorKind kind =
              rule_.factors[static_cast<size_t>(one.factor)].kind;
          return one.by_operand && contains(axes_of(one.levels), axis) &&
                 (kind == FactorKind::Whole ||
                  (kind == FactorKind::Halo &&
                   !can_be_split(one.factor, one.levels)));
        });
  }

  // Whether the node should become several that can be split where this one
  // must be whole: where that is little work, else it is better split
  // elsewhere.
  bool should_expand() const {
    if (!situation_.may_expand) {
      return false;
    }
    int64_t largest = 1;
    for (const ValueId value : read_) {
      largest = std::max(largest, element_count(step_[value].type));
    }
    return flops_of(step_, node_) <= kCheapOperations * largest &&
           std::any_of(
               mesh_.axes.begin(), mesh_.axes.end(), [&](const Axis& axis) {
                 return meets_whole(axis.name);
               });
  }

  // A table that is looked up piece by piece is gone through with all indices
  // for every piece: in time that is more work, and no less memory.
  bool is_of_use(const std::string& axis, const Suggestion& one) const {
    return one.by_operand || find_axis(time_, axis) < 0 ||
           rule_.factors[static_cast<size_t>(one.factor)].kind !=
               FactorKind::Lookup;
  }

  std::vector<int> options(const std::string& axis) const {
    std::vector<int> out;
    // An index looks up the parts of all points of time, and is not there
    // before the last of them.
    const bool is_time = find_axis(time_, axis) >= 0;
    const auto add_factor = [&](int factor) {
      const FactorKind kind = rule_.factors[static_cast<size_t>(factor)].kind;
      if (is_time && kind == FactorKind::Lookup) {
        return;
      }
      if (can_be_split(factor, {}) &&
          std::find(out.begin(), out.end(), factor) == out.end()) {
        out.push_back(factor);
      }
    };
    if (passes_on(axis)) {
      out.push_back(kCarried);
    }
    if (meets_ring(axis, ring_, suggestions_)) {
      out.push_back(kPassedRound);
    }
    for (const Suggestion& one : suggestions_) {
      if (contains(axes_of(one.levels), axis) && is_of_use(axis, one)) {
        add_factor(one.factor);
      }
    }
    if (meets_whole(axis) && find_axis(time_, axis) < 0) {
      // Whatever else the node can split. Parts in time are one rank's work,
      // which another split makes no less: it is done once for all of them.
      for (size_t i = 0; i < rule_.factors.size(); ++i) {
        if (rule_.factors[i].size > 1) {
          add_factor(static_cast<int>(i));
        }
      }
    }
    out.push_back(kNothing);
    return out;
  }

  std::vector<Choice> choices() const {
    std::vector<Choice> out;
    for (const Axis& axis : mesh_.axes) {
      Choice choice = {axis.name, options(axis.name)};
      if (choice.options.size() > 1) {
        out.push_back(std::move(choice));
      }
    }
    return out;
  }

  // The factor split over the axes as an operand has it that is split over just
  // these, or over more of them; else in the order of the mesh.
  Levels split_as_suggested(
      int factor, const Axes& axes, bool is_passed_round) const {
    for (const Suggestion& one : suggestions_) {
      const Axes theirs = axes_of(one.levels);
      if (one.factor == factor &&
          std::is_permutation(
              theirs.begin(), theirs.end(), axes.begin(), axes.end()) &&
          (is_passed_round || can_be_split(factor, one.levels))) {
        return one.levels;
      }
    }
    const int64_t size = rule_.factors[static_cast<size_t>(factor)].size;
    for (const Suggestion& one : suggestions_) {
      Levels levels = one.levels;
      for (Level& level : levels) {
        std::erase_if(level.axes, [&](const std::string& axis) {
          return !contains(axes, axis);
        });
      }
      if (one.factor == factor && axes_of(levels).size() == axes.size()) {
        levels = canonical(levels, size, mesh_);
        if (is_passed_round || can_be_split(factor, levels)) {
          return levels;
        }
      }
    }
    return canonical(split_over(axes), size, mesh_);
  }

  // None where the factors cannot be split so.
  std::optional<Assignment> assignment_of(
      const std::vector<Choice>& choices,
      const std::vector<size_t>& chosen) const {
    Assignment out;
    std::vector<Axes> axes(rule_.factors.size());
    for (size_t i = 0; i < choices.size(); ++i) {
      const int option = choices[i].options[chosen[i]];
      if (option == kCarried) {
        out.carried.push_back(choices[i].axis);
      } else if (option == kPassedRound) {
        out.ring = ring_;
        axes[static_cast<size_t>(ring_->stays)].push_back(choices[i].axis);
        axes[static_cast<size_t>(ring_->passes)].push_back(choices[i].axis);
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
              : split_as_suggested(factor, axes[i], is_passed_round));
      if (!axes[i].empty() && !is_passed_round &&
          !can_be_split(factor, out.factors.back())) {
        return std::nullopt;
      }
    }
    if (out.ring && !can_pass_round(mesh_, node_, rule_, out)) {
      return std::nullopt;
    }
    return out;
  }

  // The first of those that cost the least.
  Assignment best() const {
    const std::vector<Choice> all = choices();
    std::vector<size_t> chosen(all.size(), 0);
    Assignment best;
    best.factors.resize(rule_.factors.size());
    double least = -1;
    while (true) {
      if (const auto one = assignment_of(all, chosen)) {
        const double now = all.empty() ? 0 : cost(*one);
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
        return best;
      }
    }
  }

  double bytes_to(ValueId value, const Layout& from, const Layout& to) const {
    return from == to ? 0 : move_bytes(mesh_, step_[value].type, from, to);
  }

  // What it costs to have an operand there: nothing, where an earlier reader
  // has had it moved already.
  double operand_bytes(size_t operand, const Layout& to) const {
    const std::vector<Layout>& all = *situation_.operands[operand].moved;
    const bool is_there = std::find(all.begin(), all.end(), to) != all.end();
    return is_there ? 0 : bytes_to(read_[operand], rests(operand), to);
  }

  double local_bytes(ValueId value, const Layout& layout) const {
    auto bytes = static_cast<double>(element_count(step_[value].type)) *
                 static_cast<double>(element_bytes(step_[value].type.dtype));
    for (const Levels& levels : layout.dims) {
      bytes /= static_cast<double>(ways(mesh_, axes_of(levels)));
    }
    return bytes;
  }

  // Bytes of what windows touch beyond a piece.
  double borders(
      TensorPlace place, ValueId value, const Assignment& assignment) const {
    return splits_windows(rule_, assignment)
               ? halo_bytes(mesh_, rule_, assignment, place, step_[value].type)
               : 0;
  }

  double operand_cost(size_t operand, const Assignment& assignment) const {
    const Layout layout = needed(assignment, operand);
    const double weight =
        situation_.operands[operand].of_parameter ? kParameterWeight
        : leaves_idle(rests(operand), assignment) ? kIdleWeight
                                                  : 1;
    return operand_bytes(operand, layout) * weight +
           kWorkWeight * local_bytes(read_[operand], layout) +
           borders(
               {false, static_cast<int>(operand)}, read_[operand], assignment);
  }

  double result_cost(size_t result, const Assignment& assignment) const {
    const ValueId value = node_.results[result];
    const Layout now = made(assignment, result);
    Layout wanted = now;
    wanted.partial.clear();
    if (const Layout* known = situation_.results[result].wanted) {
      wanted = resting_layout(
          now,
          *known,
          situation_.results[result].is_for_update,
          step_[value].type,
          mesh_,
          time_);
      // Nobody can make a sum partial again.
      std::erase_if(wanted.partial, [&](const std::string& axis) {
        return !contains(now.partial, axis);
      });
    }
    return bytes_to(value, now, wanted) +
           kWorkWeight * local_bytes(value, now) +
           borders({true, static_cast<int>(result)}, value, assignment);
  }

  double cost(const Assignment& assignment) const {
    double total =
        assignment.ring
            ? kHiddenWeight * ring_bytes(mesh_, step_, node_, rule_, assignment)
            : 0;
    for (size_t i = 0; i < read_.size(); ++i) {
      total += operand_cost(i, assignment);
    }
    for (size_t i = 0; i < node_.results.size(); ++i) {
      total += result_cost(i, assignment);
    }
    return total;
  }

  const Mesh& mesh_;
  const Mesh& time_;
  const Function& step_;
  const Node& node_;
  const Situation& situation_;
  const Rule& rule_;
  const std::vector<ValueId> read_;
  const std::optional<Ring> ring_;
  // By operands, then by results.
  std::vector<Suggestion> suggestions_;
};

}  // namespace

NodeChoice choose_for_node(
    const Mesh& mesh,
    const Mesh& time,
    const Function& step,
    const Node& node,
    const Situation& situation) {
  return Choosing(mesh, time, step, node, situation).run();
}

}  // namespace weft
