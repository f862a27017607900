// SPDX-License-Identifier: Apache-2.0
// Makes values again in backward instead of keeping them. Where the plan says
// `recompute cheap`, those that cost little more than reading and writing
// memory (norms, activations), from values that are kept anyway; and all that a
// `recompute` line names, from what is kept before them. The same kernels on
// the same operands give the same bits, and random numbers are counted.
//
// Collectives come later (shard.cpp). Sums are never cheap to make again; what
// a line names is kept all the same where making it would repeat a transfer
// (exchanged_values.h), unless the plan says so.
#include "base/error.h"
#include "lower/exchanged_values.h"
#include "lower/pass.h"
#include "ops/op_def.h"
#include "plan/pattern_index.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace weft {
namespace {

// Smaller values are kept: they are not worth a call.
constexpr int64_t kLeastBytes = int64_t{256} << 10;
// Operations an element below which time goes into memory.
constexpr int64_t kFreeOperations = 16;
// How many calls one value may take.
constexpr int kMostCalls = 3;
// Nodes between the last reader in forward and the first in backward, below
// which nothing is won.
constexpr size_t kLeastDistance = 16;

class Recomputation {
 public:
  Recomputation(Lowering& lowering, const std::set<std::string>& exchanged)
      : lowering_(lowering),
        step_(*find_function(lowering.graph, "step")),
        plan_(lowering.plan),
        decisions_(plan_.decisions),
        count_(step_.nodes.size()),
        root_(step_.values.size()),
        last_forward_(step_.values.size(), 0),
        first_later_(step_.values.size(), count_),
        again_(step_.values.size(), false),
        made_(step_.values.size(), ValueId::None) {
    const PatternIndex again(plan_.recompute);
    for (const Value& value : step_.values) {
      is_exchanged_.push_back(exchanged.contains(value.name));
      is_named_.push_back(again.has_match(value.name));
    }
  }

  void run() {
    measure();
    choose();
    rewrite();
  }

 private:
  const Node* maker(ValueId value) const {
    const NodeId node = step_[value].node;
    return node == NodeId::None ? nullptr : &step_.nodes[index(node)];
  }

  void measure() {
    for (size_t i = 0; i < root_.size(); ++i) {
      const auto value = static_cast<ValueId>(i);
      const Node* node = maker(value);
      root_[i] = node != nullptr && is_view(*node) && !operands(*node).empty()
                     ? root_[index(operands(*node).front())]
                     : value;
      // A sum may be taken of a view; then what it views is kept with it.
      if (is_exchanged_[i]) {
        is_exchanged_[index(root_[i])] = true;
      }
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Node& node = step_.nodes[i];
      if (is_view(node)) {
        continue;
      }
      for (const ValueId read : operands(node)) {
        const size_t root = index(root_[index(read)]);
        if (is_later(node.phase)) {
          first_later_[root] = std::min(first_later_[root], i);
        } else {
          last_forward_[root] = std::max(last_forward_[root], i);
        }
      }
    }
    for (const Output& output : step_.outputs) {
      first_later_[index(root_[index(output.value)])] = 0;
    }
  }

  // Some later node reads it, so it is in memory then.
  bool is_read_later(ValueId root) const {
    return first_later_[index(root)] < count_;
  }

  int64_t bytes(ValueId root) const { return storage_bytes(step_[root].type); }

  bool is_cheap(const Node& node) const {
    if (node.phase != Phase::Forward || is_random(node)) {
      return false;
    }
    const OpDef* def = find_op(node.op);
    if (def == nullptr || def->kind != OpKind::Compute) {
      return false;
    }
    int64_t largest = 0;
    for (const ValueId result : node.results) {
      largest = std::max(largest, element_count(step_[result].type));
    }
    // A reduction reads much and gives little.
    for (const ValueId read : operands(node)) {
      if (element_count(step_[read].type) > largest) {
        return false;
      }
    }
    return flops_of(step_, node) <= kFreeOperations * largest;
  }

  // Whether the operand will be there in backward, or can be made there in so
  // many calls.
  bool is_there(ValueId operand, int calls) const {
    const ValueId root = root_[index(operand)];
    const Node* node = maker(root);
    if (node == nullptr || (is_read_later(root) && !again_[index(root)]) ||
        bytes(root) < kLeastBytes) {
      return true;
    }
    return calls > 0 && can_repeat(*node, calls - 1);
  }

  bool can_repeat(const Node& node, int calls) const {
    if (!is_cheap(node)) {
      return false;
    }
    const std::vector<ValueId> read = operands(node);
    return std::all_of(read.begin(), read.end(), [&](ValueId operand) {
      return is_there(operand, calls);
    });
  }

  // By a `recompute` line of the plan; what is returned or was made later
  // anyway is left as it is.
  bool is_named(ValueId value) const {
    const ValueId root = root_[index(value)];
    const Node* node = maker(root);
    return node != nullptr && node->phase == Phase::Forward && root == value &&
           is_read_later(value) && first_later_[index(value)] > 0 &&
           !is_exchanged_[index(value)] && is_named_[index(value)];
  }

  void choose() {
    for (const Node& node : step_.nodes) {
      for (const ValueId result : node.results) {
        const size_t i = index(result);
        if (is_named(result)) {
          again_[i] = true;
          continue;
        }
        if (plan_.recompute_cheap && root_[i] == result &&
            bytes(result) >= kLeastBytes && is_read_later(result) &&
            first_later_[i] > 0 &&
            first_later_[i] > last_forward_[i] + kLeastDistance &&
            can_repeat(node, kMostCalls - 1)) {
          again_[i] = true;
        }
      }
    }
  }

  void rewrite() {
    if (std::find(again_.begin(), again_.end(), true) == again_.end()) {
      return;
    }
    const std::vector<Node> before = std::move(step_.nodes);
    before_ = &before;
    step_.nodes.clear();
    // By value that the node reads, what it reads instead.
    std::vector<ValueId> now(step_.values.size());
    for (Node node : before) {
      if (is_later(node.phase)) {
        for (const ValueId read : operands(node)) {
          now[index(read)] = later(read);
        }
        replace_operands(node, now);
      }
      step_.nodes.push_back(std::move(node));
    }
    renumber(step_);
  }

  // What a later node reads in place of `value`, made when it is first needed.
  ValueId later(ValueId value) {
    if (index(value) >= root_.size() || !needs_making(value)) {
      return value;
    }
    if (made_[index(value)] != ValueId::None) {
      return made_[index(value)];
    }
    Node node = (*before_)[index(step_[value].node)];
    if (is_later(node.phase)) {
      return value;  // a view that backward makes by itself, from what is read
    }
    std::vector<ValueId> now;
    for (const ValueId read : operands(node)) {
      const ValueId other = later(read);
      now.resize(std::max(now.size(), index(read) + 1));
      now[index(read)] = other;
    }
    replace_operands(node, now);
    node.phase = Phase::Recompute;
    node.releases.clear();
    node.overwrites = ValueId::None;
    for (ValueId& result : node.results) {
      const ValueId fresh = add_value(
          step_, cat(step_[result].name, ".again"), step_[result].type);
      made_[index(result)] = fresh;
      // It lies where the first one does.
      if (const Decision* decision =
              decision_for(plan_, decisions_, step_[result].name)) {
        lowering_.reads.push_back(
            {.pattern = step_[fresh].name, .layout = decision->layout});
      }
      result = fresh;
    }
    step_.nodes.push_back(std::move(node));
    return made_[index(value)];
  }

  // Chosen, or on the way to a chosen one and not there otherwise.
  bool needs_making(ValueId value) const {
    const ValueId root = root_[index(value)];
    if (again_[index(root)]) {
      return true;
    }
    return step_[root].node != NodeId::None && !is_read_later(root) &&
           !is_exchanged_[index(root)] &&
           (is_named_[index(root)] || bytes(root) >= kLeastBytes) &&
           !is_later((*before_)[index(step_[root].node)].phase);
  }

  Lowering& lowering_;
  Function& step_;
  const Plan& plan_;
  const PatternIndex decisions_;
  // By value: making it again would repeat a transfer.
  std::vector<bool> is_exchanged_;
  // By value: a line of the plan names it.
  std::vector<bool> is_named_;
  // Of nodes, before any was added.
  const size_t count_;
  const std::vector<Node>* before_ = nullptr;
  // By value: the one in whose storage it lies.
  std::vector<ValueId> root_;
  // By storage: the last node of forward and the first later one that read it.
  std::vector<size_t> last_forward_;
  std::vector<size_t> first_later_;
  // By storage: is made again.
  std::vector<bool> again_;
  // By value: what was made of it.
  std::vector<ValueId> made_;
};

}  // namespace

void recompute(Lowering& lowering) {
  const Plan& plan = lowering.plan;
  if (plan.recompute_cheap || !plan.recompute.empty()) {
    const bool may_repeat =
        plan.recompute_collectives || plan.recompute.empty();
    Recomputation(
        lowering,
        may_repeat ? std::set<std::string>() : exchanged_values(lowering))
        .run();
  }
}

}  // namespace weft
