// SPDX-License-Identifier: Apache-2.0
// A view only says how memory is seen, but whoever makes one of a transfer's
// result has to wait for it. Such a view moves down to just before the first
// call or transfer that reads it, and goes when there is none.
#include "lower/pass.h"
#include "ops/op_def.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

class LateViews {
 public:
  explicit LateViews(Block& block)
      : block_(block),
        end_(block.instructions.size()),
        is_moved_(block.function.values.size(), false),
        needed_(block.function.values.size(), end_ + 1),
        place_(end_) {}

  void run() {
    for (size_t at = 0; at < end_; ++at) {
      mark(block_.instructions[at]);
    }
    for (const Output& output : block_.function.outputs) {
      need(output.value, end_);
    }
    for (size_t at = end_; at-- > 0;) {
      place_[at] = place_of(at);
      if (place_[at] > end_) {
        continue;
      }
      for (const ValueId read : reads(block_, block_.instructions[at])) {
        need(read, place_[at]);
      }
    }
    std::vector<std::vector<Instruction>> before(end_ + 2);
    for (size_t at = 0; at < end_; ++at) {
      before[place_[at]].push_back(std::move(block_.instructions[at]));
    }
    before.pop_back();
    block_.instructions.clear();
    for (std::vector<Instruction>& here : before) {
      std::move(
          here.begin(), here.end(), std::back_inserter(block_.instructions));
    }
  }

 private:
  const Node* view(const Instruction& instruction) const {
    const auto* call = std::get_if<Call>(&instruction);
    const Node* node =
        call == nullptr ? nullptr : &block_.function.nodes[index(call->node)];
    return node != nullptr && is_view(*node) ? node : nullptr;
  }

  // What transfers bring, and views of it.
  void mark(const Instruction& instruction) {
    const Node* node = view(instruction);
    if (std::holds_alternative<Start>(instruction) ||
        (node != nullptr && is_moved(*node))) {
      for (const ValueId made : makes(block_, instruction)) {
        is_moved_[index(made)] = true;
      }
    }
  }

  bool is_moved(const Node& node) const {
    const std::vector<ValueId> read = operands(node);
    return std::any_of(read.begin(), read.end(), [this](ValueId value) {
      return is_moved_[index(value)];
    });
  }

  void need(ValueId value, size_t at) {
    needed_[index(value)] = std::min(needed_[index(value)], at);
  }

  // Going backwards: all that reads it has its place.
  size_t place_of(size_t at) const {
    const Node* node = view(block_.instructions[at]);
    if (node == nullptr || !is_moved(*node)) {
      return at;
    }
    size_t first = end_ + 1;
    for (const ValueId result : node->results) {
      first = std::min(first, needed_[index(result)]);
    }
    return first;
  }

  Block& block_;
  const size_t end_;
  std::vector<bool> is_moved_;
  // By value: the instruction before which it must be there; end_ for an
  // output, more for what nobody reads.
  std::vector<size_t> needed_;
  // By instruction: before which it comes to stand, or itself; more than end_
  // for what goes.
  std::vector<size_t> place_;
};

}  // namespace

void late_views(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    LateViews(block).run();
  }
}

}  // namespace weft
