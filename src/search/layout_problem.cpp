// SPDX-License-Identifier: Apache-2.0
#include "search/layout_problem.h"

#include "lower/pass.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {
namespace {

class LayoutProblem {
 public:
  LayoutProblem(const LayoutSpace& space, const LayoutCosts& costs)
      : space_(space), step_(space.step()), costs_(costs) {}

  ChoiceProblem run() {
    add_nodes();
    add_values();
    for (size_t i = 0; i < space_.nodes.size(); ++i) {
      add_makers(i);
    }
    for (const LayoutSpace::Reading& reading : space_.readings) {
      add_readers(reading);
    }
    for (const LayoutSpace::Replacing& replacing : space_.replacing) {
      add_replacing(replacing);
    }
    return std::move(out_);
  }

 private:
  const Node& node_of(size_t node_class) const {
    return step_.nodes[index(space_.nodes[node_class].node)];
  }
  const TensorType& type_of(size_t value_class) const {
    return step_[space_.values[value_class].value].type;
  }
  size_t choice_of_value(size_t value_class) const {
    return space_.nodes.size() + value_class;
  }
  // What happens once for all micro-batches.
  double share_of(const Node& node) const {
    return node.phase == Phase::Optimizer
               ? 1 / static_cast<double>(costs_.micro_batches())
               : 1;
  }

  void add_nodes() {
    for (size_t i = 0; i < space_.nodes.size(); ++i) {
      const LayoutSpace::NodeClass& mine = space_.nodes[i];
      const double times = share_of(node_of(i)) * mine.count;
      ChoiceProblem::Choice& choice = out_.choices.emplace_back();
      for (const NodeOption& option : mine.options) {
        choice.seconds.push_back(
            times * costs_.node_seconds(node_of(i), option));
        choice.bytes.push_back(0);
      }
    }
  }

  // By value of the step, whether its bytes stay: inputs that the next step
  // reads, gradients, and what later nodes read of forward. Of a view, the
  // storage behind it does.
  std::vector<bool> find_kept() const {
    std::vector<bool> kept(step_.values.size(), false);
    for (const Input& input : step_.inputs) {
      kept[index(input.value)] = input.kind == InputKind::Parameter ||
                                 input.kind == InputKind::State ||
                                 input.kind == InputKind::Buffer;
    }
    std::vector<ValueId> storage;
    for (size_t i = 0; i < step_.values.size(); ++i) {
      const Value& value = step_.values[i];
      const bool is_seen =
          value.node != NodeId::None && is_view(step_.nodes[index(value.node)]);
      storage.push_back(
          is_seen
              ? storage[index(operands(step_.nodes[index(value.node)]).front())]
              : static_cast<ValueId>(i));
    }
    for (const Node& node : step_.nodes) {
      for_each_operand(node, [&](ValueId read) {
        const ValueId from = storage[index(read)];
        const NodeId maker = step_[from].node;
        if (maker == NodeId::None) {
          return;
        }
        const Phase made = step_.nodes[index(maker)].phase;
        const bool is_over = is_later(node.phase) && !is_later(made);
        const bool is_gradient =
            node.phase == Phase::Optimizer && made != Phase::Optimizer;
        if (is_over || is_gradient) {
          kept[index(from)] = true;
        }
      });
    }
    return kept;
  }

  void add_values() {
    const std::vector<bool> kept = find_kept();
    std::vector<double> kept_count(space_.values.size(), 0);
    for (size_t i = 0; i < kept.size(); ++i) {
      kept_count[space_.class_of_value[i]] +=
          kept[i] ? space_.value_counts[i] : 0;
    }
    for (size_t i = 0; i < space_.values.size(); ++i) {
      ChoiceProblem::Choice& choice = out_.choices.emplace_back();
      for (const Layout& layout : space_.values[i].options) {
        choice.seconds.push_back(0);
        choice.bytes.push_back(
            kept_count[i] == 0
                ? 0
                : kept_count[i] * costs_.local_bytes(type_of(i), layout));
      }
    }
    // What the step returns is summed.
    for (const Output& output : step_.outputs) {
      const size_t value = space_.class_of_value[index(output.value)];
      ChoiceProblem::Choice& choice = out_.choices[choice_of_value(value)];
      for (size_t k = 0; k < choice.seconds.size(); ++k) {
        Layout summed = space_.values[value].options[k];
        std::erase(summed.partial, space_.axis);
        choice.seconds[k] += costs_.move_seconds(
            type_of(value), space_.values[value].options[k], summed);
      }
    }
  }

  // The place of a layout among others, where it is put if it is new.
  static size_t place_in(std::vector<Layout>& all, const Layout& layout) {
    const auto at = std::find(all.begin(), all.end(), layout);
    if (at != all.end()) {
      return static_cast<size_t>(at - all.begin());
    }
    all.push_back(layout);
    return all.size() - 1;
  }

  void add_makers(size_t node_class) {
    const LayoutSpace::NodeClass& mine = space_.nodes[node_class];
    for (size_t k = 0; k < mine.results.size(); ++k) {
      const size_t value = mine.results[k];
      std::vector<Layout> made;
      ChoiceProblem::Party party = {.choice = node_class, .needs = {}};
      for (const NodeOption& option : mine.options) {
        party.needs.push_back(place_in(made, option.makes[k]));
      }
      ChoiceProblem::Meeting& meeting = out_.meetings.emplace_back();
      meeting.at = choice_of_value(value);
      meeting.parties = {std::move(party)};
      for (const Layout& rests : space_.values[value].options) {
        std::vector<double>& row = meeting.seconds.emplace_back();
        for (const Layout& from : made) {
          row.push_back(
              mine.count * costs_.move_seconds(type_of(value), from, rests));
        }
      }
    }
  }

  void add_readers(const LayoutSpace::Reading& reading) {
    std::vector<Layout> needed;
    ChoiceProblem::Meeting meeting;
    meeting.at = choice_of_value(reading.value);
    double share = 0;
    for (const LayoutSpace::Reader& reader : reading.readers) {
      ChoiceProblem::Party& party = meeting.parties.emplace_back();
      party.choice = reader.node;
      for (const NodeOption& option : space_.nodes[reader.node].options) {
        party.needs.push_back(place_in(needed, option.needs[reader.operand]));
      }
      share = std::max(share, share_of(node_of(reader.node)));
    }
    for (const Layout& rests : space_.values[reading.value].options) {
      std::vector<double>& row = meeting.seconds.emplace_back();
      for (const Layout& to : needed) {
        row.push_back(
            share * reading.count *
            costs_.move_seconds(type_of(reading.value), rests, to));
      }
    }
    out_.meetings.push_back(std::move(meeting));
  }

  void add_replacing(const LayoutSpace::Replacing& replacing) {
    if (replacing.value == replacing.input) {
      return;
    }
    ChoiceProblem::Meeting& meeting = out_.meetings.emplace_back();
    meeting.at = choice_of_value(replacing.value);
    ChoiceProblem::Party& party = meeting.parties.emplace_back();
    party.choice = choice_of_value(replacing.input);
    const std::vector<Layout>& inputs = space_.values[replacing.input].options;
    for (size_t i = 0; i < inputs.size(); ++i) {
      party.needs.push_back(i);
    }
    for (const Layout& rests : space_.values[replacing.value].options) {
      std::vector<double>& row = meeting.seconds.emplace_back();
      for (const Layout& to : inputs) {
        row.push_back(
            replacing.count / static_cast<double>(costs_.micro_batches()) *
            costs_.move_seconds(type_of(replacing.value), rests, to));
      }
    }
  }

  const LayoutSpace& space_;
  const Function& step_;
  const LayoutCosts& costs_;
  ChoiceProblem out_;
};

}  // namespace

ChoiceProblem layout_problem(
    const LayoutSpace& space, const LayoutCosts& costs) {
  return LayoutProblem(space, costs).run();
}

std::vector<Layout> resting_layouts(
    const LayoutSpace& space, const Chosen& chosen) {
  std::vector<Layout> out;
  for (size_t i = 0; i < space.values.size(); ++i) {
    out.push_back(
        space.values[i].options[chosen.options[space.nodes.size() + i]]);
  }
  return out;
}

}  // namespace weft
