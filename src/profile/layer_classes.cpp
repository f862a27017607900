// SPDX-License-Identifier: Apache-2.0
#include "profile/layer_classes.h"

#include "base/text.h"
#include "profile/layer_names.h"
#include "profile/layer_selection.h"
#include "profile/structure.h"

#include <algorithm>
#include <unordered_set>

namespace weft {
namespace {

// Builds the classes from the runs.
class ClassMaker {
 public:
  ClassMaker(
      const Function& function,
      const Lifetimes& lifetimes,
      const LayerSigns& signs,
      const ForwardSequence& sequence)
      : function_(function),
        signs_(signs),
        sequence_(sequence),
        activation_bytes_(function.nodes.size()) {
    for (const Storage& storage : lifetimes.storages) {
      if (storage.kind == StorageKind::Activation) {
        activation_bytes_[index(storage.first)] += storage.bytes;
      }
    }
  }

  LayerClass make(const LayerRun& run) const {
    LayerClass made;
    made.count = run.count;
    made.nodes = run.period;
    CopyPaths paths(static_cast<size_t>(run.count));
    for (int32_t copy = 0; copy < run.count; ++copy) {
      const int32_t begin = run.begin + copy * run.period;
      made.firsts.push_back(sequence_.nodes[static_cast<size_t>(begin)]);
      for (int32_t i = begin; i < begin + run.period; ++i) {
        paths[static_cast<size_t>(copy)].push_back(
            module_path(function_, node(i)));
      }
    }
    made.name = print(path_pattern(paths));
    if (made.name.empty()) {
      made.name = cat("from %", function_[node(run.begin).results[0]].name);
    }
    add_figures(run, made);
    return made;
  }

  // Do the first copies of two runs compute the same?
  bool are_equal(const LayerRun& a, const LayerRun& b) const {
    if (a.period != b.period) {
      return false;
    }
    for (int32_t i = 0; i < a.period; ++i) {
      if (!is_equal_node(a, b, i)) {
        return false;
      }
    }
    return true;
  }

 private:
  const Node& node(int32_t position) const {
    return function_
        .nodes[index(sequence_.nodes[static_cast<size_t>(position)])];
  }

  void add_figures(const LayerRun& run, LayerClass& made) const {
    const int32_t begin = run.begin + run.count / 2 * run.period;
    std::unordered_set<ValueId> parameters;
    for (int32_t i = begin; i < begin + run.period; ++i) {
      const auto at = static_cast<size_t>(i);
      made.forward_flops += signs_.flops[at];
      made.activation_bytes += activation_bytes_[index(sequence_.nodes[at])];
      for (int32_t o = sequence_.first_operand[at];
           o < sequence_.first_operand[at + 1];
           ++o) {
        const ForwardOperand& operand =
            sequence_.operands[static_cast<size_t>(o)];
        if (operand.source == ForwardOperand::Source::Parameter &&
            parameters.insert(operand.value).second) {
          made.parameters += element_count(function_[operand.value].type);
        }
      }
    }
  }

  bool is_equal_node(
      const LayerRun& a, const LayerRun& b, int32_t offset) const {
    const auto at_a = static_cast<size_t>(a.begin + offset);
    const auto at_b = static_cast<size_t>(b.begin + offset);
    const int32_t first_a = sequence_.first_operand[at_a];
    const int32_t first_b = sequence_.first_operand[at_b];
    if (sequence_.symbols[at_a] != sequence_.symbols[at_b]) {
      return false;
    }
    for (int32_t i = 0; first_a + i < sequence_.first_operand[at_a + 1]; ++i) {
      const auto& in_a = sequence_.operands[static_cast<size_t>(first_a + i)];
      const auto& in_b = sequence_.operands[static_cast<size_t>(first_b + i)];
      if (place(in_a, a, offset) != place(in_b, b, offset) ||
          (in_a.maker >= a.begin && in_a.result != in_b.result)) {
        return false;
      }
    }
    return true;
  }

  // Where in the copy an operand of the node at `offset` was made, or a
  // parameter was read before; -1 for outside and never.
  static int32_t place(
      const ForwardOperand& operand, const LayerRun& run, int32_t offset) {
    if (operand.maker >= run.begin) {
      return operand.maker - run.begin;
    }
    return operand.read_ago > 0 && operand.read_ago <= offset
               ? offset - operand.read_ago
               : -1;
  }

  const Function& function_;
  const LayerSigns& signs_;
  const ForwardSequence& sequence_;
  // By node.
  std::vector<int64_t> activation_bytes_;
};

// "blocks.0.attention.{q,k}" inside "blocks.{0..9}":
// "blocks.*.attention.{q,k}".
std::string name_inside(const std::string& name, const std::string& parent) {
  const size_t brace = parent.find('{');
  if (brace == std::string::npos ||
      !name.starts_with(parent.substr(0, brace))) {
    return name;
  }
  const size_t dot = name.find('.', brace);
  if (dot == std::string::npos || name.find('{') < dot) {
    return name;
  }
  return name.substr(0, brace) + "*" + name.substr(dot);
}

}  // namespace

std::vector<LayerClass> layer_classes(
    const Function& function,
    const Lifetimes& lifetimes,
    const std::vector<int32_t>& signatures,
    const std::vector<int64_t>& flops) {
  const ForwardSequence sequence = forward_sequence(function, signatures);
  const LayerSigns signs = read_signs(function, lifetimes, flops, sequence);
  const std::vector<LayerRun> runs =
      select_layers(find_stretches(sequence), signs);
  const ClassMaker maker(function, lifetimes, signs, sequence);

  std::vector<LayerClass> classes;
  // By class, the first of its runs; by run, the class that it opened, or -1.
  std::vector<LayerRun> first_run;
  std::vector<int32_t> opened;
  for (const LayerRun& run : runs) {
    const int32_t parent =
        run.parent < 0 ? -1 : opened[static_cast<size_t>(run.parent)];
    opened.push_back(-1);
    if (run.parent >= 0 && parent < 0) {
      // The parent equals an earlier one, so what is nested in it does too.
      continue;
    }
    LayerClass made = maker.make(run);
    made.parent = parent;
    if (parent >= 0) {
      made.name =
          name_inside(made.name, classes[static_cast<size_t>(parent)].name);
    }
    size_t same = 0;
    while (same < classes.size() && (classes[same].parent != parent ||
                                     !maker.are_equal(first_run[same], run))) {
      ++same;
    }
    if (same == classes.size()) {
      opened.back() = static_cast<int32_t>(same);
      classes.push_back(std::move(made));
      first_run.push_back(run);
    } else {
      LayerClass& known = classes[same];
      known.count += made.count;
      known.name += ", " + made.name;
      known.firsts.insert(
          known.firsts.end(), made.firsts.begin(), made.firsts.end());
    }
  }
  return classes;
}

}  // namespace weft
