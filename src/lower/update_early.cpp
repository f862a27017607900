// SPDX-License-Identifier: Apache-2.0
// Moves the optimizer's calls up into backward: a parameter is updated as soon
// as its gradient is there and nobody reads its old value any more, so that
// gradients need not live together. A gradient that travels in a bucket counts
// as there when the next bucket is on its way, so that the update does not wait
// for the wires; but an update comes before what reads its results, as the
// gathering of new parameters does.
#include "lower/pass.h"
#include "ops/op_def.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

class EarlyUpdates {
 public:
  explicit EarlyUpdates(Block& block)
      : block_(block),
        storage_(storages(block)),
        ready_(block.function.values.size(), -1),
        last_read_(block.function.values.size(), -1),
        first_read_(block.function.values.size(), INT64_MAX),
        replaces_(block.function.values.size(), ValueId::None) {}

  void run() {
    const Function& function = block_.function;
    for (const Input& input : function.inputs) {
      const int output = replacement_of(function, input);
      if (output >= 0) {
        const auto number = static_cast<size_t>(output);
        replaces_[index(function.outputs[number].value)] = input.value;
      }
    }
    for (const Start* start : transfers(block_)) {
      transfer_.push_back(
          start == nullptr ? std::vector<ValueId>() : start->operands);
    }
    const std::vector<bool> is_update = find_updates();
    std::vector<Instruction> updates;
    for (size_t i = 0; i < is_update.size(); ++i) {
      (is_update[i] ? updates : body_)
          .push_back(std::move(block_.instructions[i]));
    }
    measure_body();
    for (auto update = updates.rbegin(); update != updates.rend(); ++update) {
      for (const ValueId read : reads(block_, *update)) {
        int64_t& first = first_read_[index(read)];
        first = std::min(first, latest(*update));
      }
    }
    std::vector<std::vector<Instruction>> after(body_.size() + 1);
    for (Instruction& update : updates) {
      const int64_t at = std::min(earliest(update), latest(update));
      for (const ValueId made : makes(block_, update)) {
        ready_[index(made)] = at;
      }
      after[static_cast<size_t>(at + 1)].push_back(std::move(update));
    }
    block_.instructions.clear();
    for (size_t i = 0; i < after.size(); ++i) {
      if (i > 0) {
        block_.instructions.push_back(std::move(body_[i - 1]));
      }
      std::move(
          after[i].begin(),
          after[i].end(),
          std::back_inserter(block_.instructions));
    }
  }

 private:
  // By instruction: the optimizer's calls, and views that only they read or
  // that are only returned.
  std::vector<bool> find_updates() const {
    std::vector<bool> out(block_.instructions.size(), false);
    std::vector<bool> read_by_body(block_.function.values.size(), false);
    for (size_t i = out.size(); i-- > 0;) {
      const Instruction& instruction = block_.instructions[i];
      if (const auto* call = std::get_if<Call>(&instruction)) {
        const Node& node = block_.function.nodes[index(call->node)];
        out[i] =
            node.phase == Phase::Optimizer ||
            (is_view(node) &&
             std::none_of(
                 node.results.begin(), node.results.end(), [&](ValueId result) {
                   return read_by_body[index(result)];
                 }));
      }
      for (const ValueId read : reads(block_, instruction)) {
        read_by_body[index(read)] = read_by_body[index(read)] || !out[i];
      }
    }
    return out;
  }

  void measure_body() {
    const auto end = static_cast<int64_t>(body_.size()) - 1;
    int64_t next_start = end;
    for (int64_t i = end; i >= 0; --i) {
      const Instruction& instruction = body_[static_cast<size_t>(i)];
      const auto* start = std::get_if<Start>(&instruction);
      // What a transfer makes is there behind the wait for any of it.
      int64_t ready = i;
      if (start != nullptr) {
        ready = next_start;
        for (const ValueId made : start->results) {
          ready = std::max(ready, ready_[index(made)]);
        }
      }
      for (const ValueId made : makes(block_, instruction)) {
        ready_[index(made)] = ready;
      }
      if (start != nullptr && (start->kind == TransferKind::AllReduce ||
                               start->kind == TransferKind::ReduceScatter)) {
        next_start = i;
      }
      for (const ValueId read : reads(block_, instruction)) {
        note_read(read, i);
      }
      if (const auto* wait = std::get_if<Wait>(&instruction)) {
        ready_[index(wait->value)] = i;
        for (const ValueId read : transfer_[index(wait->value)]) {
          note_read(read, i);
        }
      }
    }
  }

  // Going backwards.
  void note_read(ValueId value, int64_t at) {
    int64_t& last = last_read_[index(storage_[index(value)])];
    last = std::max(last, at);
    first_read_[index(value)] = at - 1;
  }

  // The instruction of the body after which the update must come at the latest.
  int64_t latest(const Instruction& update) const {
    int64_t at = INT64_MAX;
    for (const ValueId made : makes(block_, update)) {
      at = std::min(at, first_read_[index(made)]);
    }
    return at;
  }

  // The instruction of the body after which the update can come.
  int64_t earliest(const Instruction& update) const {
    int64_t at = -1;
    for (const ValueId read : reads(block_, update)) {
      at = std::max(at, ready_[index(read)]);
    }
    for (const ValueId made : makes(block_, update)) {
      at = std::max(at, last_read_of_replaced(made));
    }
    return at;
  }

  // Of the input that the next step will read `value` as.
  int64_t last_read_of_replaced(ValueId value) const {
    const ValueId input = replaces_[index(value)];
    return input == ValueId::None ? -1 : last_read_[index(input)];
  }

  Block& block_;
  const std::vector<ValueId> storage_;
  std::vector<Instruction> body_;
  // By value: the instruction of the body after which it can be read.
  std::vector<int64_t> ready_;
  // By storage.
  std::vector<int64_t> last_read_;
  // By value: the last instruction of the body before it is read.
  std::vector<int64_t> first_read_;
  // By value: the input that it is in the next step.
  std::vector<ValueId> replaces_;
  // By result of a transfer: what it reads.
  std::vector<std::vector<ValueId>> transfer_;
};

}  // namespace

void update_early(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    EarlyUpdates(block).run();
  }
}

}  // namespace weft
