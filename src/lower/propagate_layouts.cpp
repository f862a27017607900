// SPDX-License-Identifier: Apache-2.0
// A layout for every value, from those that the plan names.
//
// Going through the nodes in order, the axes that split an operand's dim split
// the factor of the node's rule that the dim stands for, and so the dims of the
// results; a split factor that a result lacks makes it a partial sum. Partial
// sums go on through operators that are linear in them, and are summed right
// after the value where a reader is not. Where an operand is whole and its
// factor is split, the operand is wanted split: its own node can often make
// just the piece (expand, full), and says so in the next round. Rounds end when
// nothing new is wanted; what is wanted only grows.
#include "base/error.h"
#include "lower/factor_axes.h"
#include "lower/pass.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {
namespace {

class Propagation {
 public:
  explicit Propagation(Lowering& lowering)
      : lowering_(lowering),
        mesh_(lowering.plan.mesh),
        step_(step_of(lowering.graph)),
        layouts_(lowering.layouts),
        summed_(lowering.summed) {
    for (const Node& node : step_.nodes) {
      rules_.push_back(rule_of(step_, node));
    }
    for (const Value& value : step_.values) {
      layouts_.push_back(replicated(static_cast<int>(value.type.sizes.size())));
    }
    summed_.assign(step_.values.size(), false);
    wanted_ = layouts_;
    for (size_t i = 0; i < step_.values.size(); ++i) {
      if (const Decision* decision =
              decision_for(lowering.plan, step_.values[i].name)) {
        wanted_[i] = decision->layout;
      }
    }
  }

  void run() {
    for (const Input& input : step_.inputs) {
      const Layout& layout = wanted_[index(input.value)];
      WEFT_CHECK_USER(
          layout.partial.empty(),
          "%",
          step_[input.value].name,
          ": an input cannot be a partial sum");
      layouts_[index(input.value)] = layout;
    }
    do {
      changed_ = false;
      for (size_t i = 0; i < step_.nodes.size(); ++i) {
        visit(step_.nodes[i], rules_[i]);
      }
      for (const Output& output : step_.outputs) {
        if (!seen(output.value).partial.empty()) {
          sum(output.value);
        }
      }
    } while (changed_);
    check_decisions();
    check_carried();
  }

 private:
  // As readers see it.
  Layout seen(ValueId value) const {
    Layout layout = layouts_[index(value)];
    if (summed_[index(value)]) {
      layout.partial.clear();
    }
    return layout;
  }

  void sum(ValueId value) {
    summed_[index(value)] = true;
    changed_ = true;
  }

  // The axes over which the node's operands are partial sums that its results
  // may be too. Operands for which that does not hold are summed.
  Axes linear_axes(const Node& node) {
    const std::vector<ValueId> read = operands(node);
    std::vector<size_t> partial;
    for (size_t i = 0; i < read.size(); ++i) {
      if (!seen(read[i]).partial.empty()) {
        partial.push_back(i);
      }
    }
    if (partial.empty()) {
      return {};
    }
    Axes axes = seen(read[partial.front()]).partial;
    if (passes_on(linear_of(node), read, partial, axes)) {
      return axes;
    }
    for (const size_t i : partial) {
      sum(read[i]);
    }
    return {};
  }

  bool passes_on(
      Linear linear,
      const std::vector<ValueId>& read,
      const std::vector<size_t>& partial,
      const Axes& axes) const {
    switch (linear) {
      case Linear::No:
        return false;
      case Linear::First:
        return partial.size() == 1 && partial.front() == 0;
      case Linear::Each:
        return partial.size() == 1;
      case Linear::All:
        return partial.size() == read.size() &&
               std::all_of(read.begin(), read.end(), [&](ValueId value) {
                 return seen(value).partial == axes;
               });
    }
    WEFT_CHECK(false, "unknown linearity");
  }

  void visit(const Node& node, const Rule& rule) {
    const Axes linear = linear_axes(node);
    const std::vector<ValueId> read = operands(node);
    FactorAxes axes(mesh_, step_, node, rule);
    for (size_t i = 0; i < read.size(); ++i) {
      const Layout& layout = layouts_[index(read[i])];
      for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
        axes.split(read[i], rule.operands[i][dim], axes_of(layout.dims[dim]));
      }
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Layout& wanted = wanted_[index(node.results[i])];
      for (size_t dim = 0; dim < wanted.dims.size(); ++dim) {
        axes.split(
            node.results[i], rule.results[i][dim], axes_of(wanted.dims[dim]));
      }
    }
    for (size_t i = 0; i < read.size(); ++i) {
      want_operand(axes, read[i], rule.operands[i]);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      set_result(axes, node.results[i], static_cast<int>(i), rule, linear);
    }
  }

  void want_operand(
      const FactorAxes& axes,
      ValueId value,
      const std::vector<DimFactors>& dims) {
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (!axes.is_split(dims[dim]) ||
          !layouts_[index(value)].dims[dim].empty()) {
        continue;
      }
      Levels& wanted = wanted_[index(value)].dims[dim];
      if (!wanted.empty() || step_[value].node == NodeId::None) {
        axes.fail(
            cat("%",
                step_[value].name,
                " is whole on every rank where its piece over {",
                join(axes.axes_of(dims[dim]), ", "),
                "} is needed; cutting values into pieces is not lowered yet"));
      }
      wanted = split_over(axes.axes_of(dims[dim]));
      changed_ = true;
    }
  }

  void set_result(
      const FactorAxes& axes,
      ValueId value,
      int result,
      const Rule& rule,
      const Axes& linear) {
    Layout& layout = layouts_[index(value)];
    const std::vector<DimFactors>& dims =
        rule.results[static_cast<size_t>(result)];
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      layout.dims[dim] = split_over(axes.axes_of(dims[dim]));
    }
    layout.partial = linear;
    for (const std::string& axis : axes.partial_axes(result)) {
      if (std::find(linear.begin(), linear.end(), axis) != linear.end()) {
        axes.fail(cat("its result is a partial sum over ", axis, " twice"));
      }
      layout.partial.push_back(axis);
    }
  }

  void check_decisions() {
    for (size_t i = 0; i < step_.values.size(); ++i) {
      const auto value = static_cast<ValueId>(i);
      const Decision* decision =
          decision_for(lowering_.plan, step_.values[i].name);
      if (decision == nullptr) {
        continue;
      }
      // Where the plan wants the sum, the sum is made.
      if (decision->layout.partial.empty() && !layouts_[i].partial.empty()) {
        summed_[i] = true;
      }
      WEFT_CHECK_USER(
          seen(value) == decision->layout,
          "%",
          step_.values[i].name,
          ": the plan says ",
          print(decision->layout),
          ", and its operands give ",
          print(layouts_[i]),
          "; moving values between layouts is not lowered yet");
    }
  }

  // A parameter comes out as it went in, or the next step could not start.
  void check_carried() const {
    for (const Input& input : step_.inputs) {
      const int replacement = replacement_of(step_, input);
      if (replacement < 0) {
        continue;
      }
      const ValueId output =
          step_.outputs[static_cast<size_t>(replacement)].value;
      const Layout after = seen(output);
      WEFT_CHECK_USER(
          after == layouts_[index(input.value)],
          "%",
          step_[output].name,
          " is ",
          print(after),
          ", and %",
          step_[input.value].name,
          ", which it replaces, is ",
          print(layouts_[index(input.value)]),
          "; moving values between layouts is not lowered yet");
    }
  }

  Lowering& lowering_;
  const Mesh& mesh_;
  const Function& step_;
  std::vector<Layout>& layouts_;
  std::vector<bool>& summed_;
  std::vector<Rule> rules_;
  // By the plan, or by a reader.
  std::vector<Layout> wanted_;
  bool changed_ = false;
};

}  // namespace

void propagate_layouts(Lowering& lowering) { Propagation(lowering).run(); }

}  // namespace weft
