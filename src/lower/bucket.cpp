// SPDX-License-Identifier: Apache-2.0
// Sums that nobody reads yet wait for each other and travel as one: a transfer
// of several storages that lie side by side (place.cpp), so nothing is copied.
// A bucket leaves when it is full, or when somebody reads one of its sums.
#include "lower/pass.h"
#include "ops/kernel.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Small enough that the first leaves early in backward, large enough that its
// latency does not count.
constexpr int64_t kBucketBytes = int64_t{4} << 20;

class Bucketing {
 public:
  explicit Bucketing(Block& block)
      : block_(block),
        storage_(storages(block)),
        joined_(block.function.values.size(), false) {}

  void run() {
    std::vector<Instruction> before = std::move(block_.instructions);
    for (Instruction& instruction : before) {
      if (auto* start = std::get_if<Start>(&instruction)) {
        if (can_join(*start)) {
          join_bucket(std::move(*start));
          continue;
        }
      }
      if (const auto* wait = std::get_if<Wait>(&instruction)) {
        if (joined_[index(wait->value)]) {
          continue;  // one for the whole bucket follows its start
        }
      }
      const std::vector<ValueId> read = reads(block_, instruction);
      if (std::any_of(read.begin(), read.end(), [this](ValueId value) {
            return is_open(value);
          })) {
        leave();
      }
      out_.push_back(std::move(instruction));
    }
    leave();
    block_.instructions = std::move(out_);
  }

 private:
  DType dtype_of(const Start& start) const {
    return block_.function[start.operands.front()].type.dtype;
  }

  // The operand is all of its storage, and the storage is nobody else's.
  bool can_join(const Start& start) const {
    if (start.kind != TransferKind::AllReduce || start.operands.size() != 1) {
      return false;
    }
    const ValueId operand = start.operands.front();
    const ValueId root = storage_[index(operand)];
    const bool is_input = std::any_of(
        block_.function.inputs.begin(),
        block_.function.inputs.end(),
        [root](const Input& input) { return input.value == root; });
    return !is_input && dense_bytes(block_.function[operand].type) ==
                            storage_bytes(block_, root);
  }

  void join_bucket(Start start) {
    if (!bucket_.results.empty() &&
        (bucket_.axes != start.axes || dtype_of(bucket_) != dtype_of(start))) {
      leave();
    }
    joined_[index(start.results.front())] = true;
    if (bucket_.results.empty()) {
      bucket_ = start;
    } else {
      bucket_.operands.push_back(start.operands.front());
      bucket_.results.push_back(start.results.front());
    }
    bytes_ += storage_bytes(block_, storage_[index(start.operands.front())]);
    if (bytes_ >= kBucketBytes) {
      leave();
    }
  }

  bool is_open(ValueId value) const {
    return std::find(bucket_.results.begin(), bucket_.results.end(), value) !=
           bucket_.results.end();
  }

  void leave() {
    if (bucket_.results.empty()) {
      return;
    }
    const ValueId first = bucket_.results.front();
    out_.emplace_back(std::exchange(bucket_, {}));
    out_.emplace_back(Wait{first});
    bytes_ = 0;
  }

  Block& block_;
  const std::vector<ValueId> storage_;
  // Results that are in a bucket, open or gone.
  std::vector<bool> joined_;
  std::vector<Instruction> out_;
  Start bucket_;
  int64_t bytes_ = 0;
};

// The results of every collective, by name, in order.
std::vector<std::vector<std::string>> groups_of(const Block& block) {
  std::vector<std::vector<std::string>> groups;
  for (const Instruction& instruction : block.instructions) {
    const auto* start = std::get_if<Start>(&instruction);
    if (start != nullptr && is_collective(start->kind)) {
      std::vector<std::string>& names = groups.emplace_back();
      for (const ValueId result : start->results) {
        names.push_back(block.function[result].name);
      }
    }
  }
  return groups;
}

}  // namespace

void bucket(Lowering& lowering) {
  std::vector<Block> blocks = lowering.program.blocks;
  for (Block& block : blocks) {
    Bucketing(block).run();
  }
  // Ranks whose pieces are not equal may not do the same calls, and so would
  // fill their buckets otherwise. Then there are none.
  const bool agree =
      std::all_of(blocks.begin(), blocks.end(), [&](const Block& block) {
        return groups_of(block) == groups_of(blocks.front());
      });
  if (agree) {
    lowering.program.blocks = std::move(blocks);
  }
}

}  // namespace weft
