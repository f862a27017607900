// SPDX-License-Identifier: Apache-2.0
#include "lower/exchanged_values.h"

#include "lower/assignment.h"
#include "lower/halo.h"
#include "lower/lay_out.h"
#include "lower/move.h"
#include "lower/sharded_step.h"
#include "ops/op_def.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace weft {
namespace {

class Exchanges {
 public:
  Exchanges(const Lowering& laid_out, const Function& before)
      : lowering_(laid_out),
        sharded_(laid_out),
        step_(sharded_.step()),
        of_parameter_(step_.values.size(), false),
        is_reduced_(step_.values.size(), false),
        gathered_later_(step_.values.size()) {
    for (const Value& value : before.values) {
      known_.insert(value.name);
    }
    for (const Input& input : step_.inputs) {
      of_parameter_[index(input.value)] = input.kind == InputKind::Parameter;
    }
    look_at_readers();
  }

  std::set<std::string> find() const {
    std::set<std::string> out;
    // By value: making it, and what a node became for it, takes a transfer.
    std::vector<bool> is_exchanged(step_.values.size(), false);
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (node.phase != Phase::Forward) {
        continue;
      }
      bool takes = transfers(i);
      for (const ValueId read : operands(node)) {
        takes = takes || (is_exchanged[index(read)] &&
                          !known_.contains(step_[read].name));
      }
      for (const ValueId result : node.results) {
        is_exchanged[index(result)] = takes && !of_parameter_[index(result)];
        if (is_exchanged[index(result)]) {
          out.insert(step_[result].name);
        }
      }
    }
    return out;
  }

 private:
  double bytes(ValueId value, const Layout& from, const Layout& to) const {
    return from == to ? 0
                      : move_bytes(lowering_.mesh, step_[value].type, from, to);
  }

  void look_at_readers() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      const std::vector<ValueId> read = operands(node);
      if (is_view(node) && !read.empty() && of_parameter_[index(read[0])]) {
        for (const ValueId result : node.results) {
          of_parameter_[index(result)] = true;
        }
      }
      for (size_t k = 0; k < read.size(); ++k) {
        const Layout& needed = sharded_.operand(i, k);
        const Layout& rests = sharded_.resting(read[k]);
        if (needed.partial.size() < rests.partial.size()) {
          is_reduced_[index(read[k])] = true;
        } else if (is_later(node.phase)) {
          gathered_later_[index(read[k])].push_back(needed);
        }
      }
    }
  }

  // Whether the node, run once more after forward, would take a transfer that
  // backward does not need without it.
  bool transfers(size_t number) const {
    const Node& node = step_.nodes[number];
    const Rule& rule = sharded_.rule(number);
    const Assignment& assignment = sharded_.assignment(number);
    if (assignment.ring || splits_windows(rule, assignment)) {
      return true;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      if (is_reduced_[index(result)] ||
          bytes(
              result,
              lowering_.layouts[index(result)],
              sharded_.resting(result)) > 0 ||
          !joins_of(rule, assignment, static_cast<int>(i)).empty()) {
        return true;
      }
    }
    const std::vector<ValueId> read = operands(node);
    for (size_t k = 0; k < read.size(); ++k) {
      if (of_parameter_[index(read[k])]) {
        continue;
      }
      const Layout& needed = sharded_.operand(number, k);
      const Layout& rests = sharded_.resting(read[k]);
      // A sum is there once it was taken.
      const bool is_sum = needed.partial.size() < rests.partial.size();
      const std::vector<Layout>& later = gathered_later_[index(read[k])];
      if (!is_sum && bytes(read[k], rests, needed) > 0 &&
          std::find(later.begin(), later.end(), needed) == later.end()) {
        return true;
      }
    }
    return false;
  }

  const Lowering& lowering_;
  const ShardedStep sharded_;
  const Function& step_;
  // Names before the step was laid out.
  std::set<std::string> known_;
  std::vector<bool> of_parameter_;
  // By value: someone needs it summed.
  std::vector<bool> is_reduced_;
  // By value: where backward has it anyway.
  std::vector<std::vector<Layout>> gathered_later_;
};

}  // namespace

std::set<std::string> exchanged_values(const Lowering& lowering) {
  if (rank_count(lowering.mesh) == 1) {
    return {};
  }
  return lowering.memo->exchanged(lowering.plan, [&] {
    return Exchanges(laid_out(lowering), step_of(lowering.graph)).find();
  });
}

}  // namespace weft
