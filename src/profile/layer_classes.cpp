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
    CopyPaths paths(static_cast<size_t>(run.count));
    for (int32_t copy = 0; copy < run.count; ++copy) {
      const int32_t begin = run.begin + copy * run.period;
      made.copies.push_back(copy_at(begin, run.period));
      for (int32_t i = begin; i < begin + run.period; ++i) {
        paths[static_cast<size_t>(copy)].push_back(
            module_path(function_, node(i)));
      }
    }
    made.name = print(path_pattern(paths));
    if (made.name.empty()) {
      const Node& first = function_.nodes[index(made.copies.front().first)];
      made.name = cat("from %", function_[first.results[0]].name);
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

  // Views before a node go with it.
  LayerCopy copy_at(int32_t begin, int32_t period) const {
    const auto at = static_cast<size_t>(begin);
    size_t first = at == 0 ? 0 : index(sequence_.nodes[at - 1]) + 1;
    while (function_.nodes[first].phase != Phase::Forward) {
      ++first;
    }
    return {
        static_cast<NodeId>(first),
        sequence_.nodes[at + static_cast<size_t>(period) - 1]};
  }

  void add_figures(const LayerRun& run, LayerClass& made) const {
    const int32_t begin = run.begin + run.count / 2 * run.period;
    const LayerCopy copy = copy_at(begin, run.period);
    for (size_t i = index(copy.first); i <= index(copy.last); ++i) {
      made.nodes += function_.nodes[i].phase == Phase::Forward ? 1 : 0;
    }
    std::unordered_set<ValueId> parameters;
    for (int32_t i = begin; i < begin + run.period; ++i) {
      const auto at = static_cast<size_t>(i);
      made.forward_flops += signs_.flops[at];
      made.activation_bytes += activation_bytes_[index(sequence_.nodes[at])];
      for (const ForwardOperand& operand : sequence_.operands_of(i)) {
        if (operand.source == ForwardOperand::Source::Parameter &&
            parameters.insert(operand.base).second) {
          made.parameters += element_count(function_[operand.base].type);
        }
      }
    }
  }

  bool is_equal_node(
      const LayerRun& a, const LayerRun& b, int32_t offset) const {
    const auto symbol = [&](const LayerRun& run) {
      const int32_t at = run.begin + offset;
      return sequence_.symbols[static_cast<size_t>(at)];
    };
    if (symbol(a) != symbol(b)) {
      return false;
    }
    const auto in_a = sequence_.operands_of(a.begin + offset);
    const auto in_b = sequence_.operands_of(b.begin + offset);
    for (size_t i = 0; i < in_a.size(); ++i) {
      const int32_t place_a = place(in_a[i], a, offset);
      const bool is_inside = place_a >= 0;
      if (place_a != place(in_b[i], b, offset) ||
          (is_inside && (in_a[i].result != in_b[i].result ||
                         in_a[i].view != in_b[i].view))) {
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
      known.copies.insert(
          known.copies.end(), made.copies.begin(), made.copies.end());
    }
  }
  return classes;
}

}  // namespace weft
