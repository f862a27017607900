// SPDX-License-Identifier: Apache-2.0
// Two calls become one where the table of operators has one that does both
// (OpDef::fusions) and what the first makes has no other reader:
//
//   %dp = aten.nll_loss_backward(%g, %p, %labels, none, 1, -100, %weight)
//   %dx = aten._log_softmax_backward_data(%dp, %p, 1, f32)
//
//   %dx = weft.cross_entropy_backward(%g, %p, %labels, none, 1, -100, %weight)
//
// Some round otherwise than the two calls; they stand only where the gradients
// of parts of a batch are added up.
//
// It comes after the step was shared out: the rules of both are then done with,
// and where a plan splits what they look at differently, they are no pair.
#include "lower/pass.h"
#include "ops/op_def.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

class Fusing {
 public:
  Fusing(Block& block, const Mesh& time)
      : block_(block),
        time_(time),
        storage_(storages(block)),
        made_at_(storage_.size(), kNowhere),
        readers_(storage_.size(), 0) {
    for (size_t i = 0; i < block_.instructions.size(); ++i) {
      for (const ValueId made : makes(block_, block_.instructions[i])) {
        made_at_[index(made)] = i;
      }
      for (const ValueId read : reads(block_, block_.instructions[i])) {
        ++readers_[index(read)];
      }
    }
    for (const Output& output : block_.function.outputs) {
      ++readers_[index(output.value)];
    }
  }

  void run() {
    std::vector<bool> gone(block_.instructions.size(), false);
    for (size_t second = 0; second < gone.size(); ++second) {
      Node* node = called(second);
      for (const ValueId read : latest_first(node)) {
        const size_t first = made_at_[index(read)];
        if (readers_[index(read)] != 1 || first == kNowhere || gone[first] ||
            called(first) == nullptr || is_taken_over(first, second)) {
          continue;
        }
        const Node& before = *called(first);
        std::optional<Node> both =
            before.results.size() == 1
                ? fused(block_.function, before, *node, bits_of(read))
                : std::nullopt;
        if (both) {
          *node = std::move(*both);
          gone[first] = true;
          break;
        }
      }
    }
    std::vector<Instruction> kept;
    for (size_t i = 0; i < gone.size(); ++i) {
      if (!gone[i]) {
        kept.push_back(std::move(block_.instructions[i]));
      }
    }
    block_.instructions = std::move(kept);
  }

 private:
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  Node* called(size_t at) {
    const auto* call = std::get_if<Call>(&block_.instructions[at]);
    return call == nullptr ? nullptr
                           : &block_.function.nodes[index(call->node)];
  }

  // The operands: of two that might do, the one that was made just before, for
  // the call that makes it comes later now.
  std::vector<ValueId> latest_first(const Node* node) const {
    std::vector<ValueId> read =
        node == nullptr ? std::vector<ValueId>() : operands(*node);
    std::stable_sort(read.begin(), read.end(), [&](ValueId a, ValueId b) {
      return made_at_[index(a)] + 1 > made_at_[index(b)] + 1;
    });
    return read;
  }

  // What is summed over parts of the step has no bits to keep: the parts come
  // in the order of a schedule.
  Bits bits_of(ValueId between) const {
    const Axes& partial = block_.layouts[index(between)].partial;
    const bool is_summed = std::any_of(
        partial.begin(), partial.end(), [&](const std::string& axis) {
          return find_axis(time_, axis) >= 0;
        });
    return is_summed ? Bits::Rounded : Bits::Same;
  }

  // Whether a transfer between the two puts something else where the first
  // reads.
  bool is_taken_over(size_t first, size_t second) const {
    const std::vector<ValueId> read = reads(block_, block_.instructions[first]);
    for (size_t i = first + 1; i < second; ++i) {
      const auto* start = std::get_if<Start>(&block_.instructions[i]);
      if (start == nullptr || !stays_in_place(start->kind)) {
        continue;
      }
      for (const ValueId operand : start->operands) {
        const bool meets =
            std::any_of(read.begin(), read.end(), [&](ValueId value) {
              return storage_[index(value)] == storage_[index(operand)];
            });
        if (meets) {
          return true;
        }
      }
    }
    return false;
  }

  Block& block_;
  const Mesh& time_;
  const std::vector<ValueId> storage_;
  // By value: the instruction that makes it.
  std::vector<size_t> made_at_;
  // By value: how often it is read.
  std::vector<int> readers_;
};

}  // namespace

void fuse(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    Fusing(block, lowering.program.time).run();
  }
}

}  // namespace weft
