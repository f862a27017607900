// SPDX-License-Identifier: Apache-2.0
// Collectives whose results nobody reads yet wait for each other and travel as
// one: sums in storages that lie side by side (place.cpp), gathers and scatters
// of several tensors. A bucket is closed when it is full, or when somebody
// reads one of its results. It leaves right behind the last that joined it, so
// that calls run while it travels.
//
// Ranks whose pieces are not equal do not do the same calls, but start the same
// collectives, and must go on doing so. So buckets are formed for all blocks at
// once: what one of them reads, or cannot join, counts for all.
#include "lower/collectives.h"
#include "lower/pass.h"
#include "ops/kernel.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Small enough that the first leaves early in backward, large enough that its
// latency does not count.
constexpr int64_t kBucketBytes = int64_t{4} << 20;

struct Bucket {
  // Collectives, by number.
  std::vector<size_t> members;
  int64_t bytes = 0;
};

// What one block has to say.
class BucketBlock {
 public:
  explicit BucketBlock(Block& block)
      : block_(block),
        storage_(storages(block)),
        starts_(collectives(block)),
        made_by_(block.function.values.size(), -1) {
    for (size_t number = 0; number < starts_.size(); ++number) {
      for (const ValueId result : start(number).results) {
        made_by_[index(result)] = static_cast<int64_t>(number);
      }
    }
  }

  size_t count() const { return starts_.size(); }
  const Start& start(size_t number) const {
    return std::get<Start>(block_.instructions[starts_[number]]);
  }
  DType dtype(size_t number) const {
    return block_.function[start(number).operands.front()].type.dtype;
  }

  // What travels or is summed; the pieces of a gather as the whole.
  int64_t bytes(size_t number) const {
    const Start& one = start(number);
    return std::max(
        dense_bytes(block_.function[one.operands.front()].type),
        dense_bytes(block_.function[one.results.front()].type));
  }

  // Of a sum, the operand is all of its storage, and the storage is nobody
  // else's. One of no elements has no place that could lie beside another.
  bool can_join(size_t number) const {
    const Start& one = start(number);
    if (one.operands.size() != 1 || one.kind == TransferKind::AllToAll) {
      return false;
    }
    if (one.kind != TransferKind::AllReduce) {
      return true;
    }
    const ValueId operand = one.operands.front();
    const ValueId root = storage_[index(operand)];
    const bool is_input = std::any_of(
        block_.function.inputs.begin(),
        block_.function.inputs.end(),
        [root](const Input& input) { return input.value == root; });
    const int64_t bytes = storage_bytes(block_, root);
    return !is_input && bytes > 0 &&
           dense_bytes(block_.function[operand].type) == bytes;
  }

  // Whether anything behind collective `number` - 1, up to `number` itself,
  // needs what the bucket makes, or takes over what it reads.
  bool needs(const Bucket& bucket, size_t number) const {
    for (size_t at = begin(number); at < end(number); ++at) {
      if (needs(bucket, block_.instructions[at])) {
        return true;
      }
    }
    return number < starts_.size() &&
           needs(bucket, block_.instructions[starts_[number]]);
  }

  // By collective: the buckets that leave behind it. Those that have `joined`
  // one do not start by themselves.
  void rewrite(
      const std::vector<std::vector<Bucket>>& leaving,
      const std::vector<bool>& joined) {
    std::vector<Instruction> out;
    for (size_t number = 0; number <= starts_.size(); ++number) {
      for (size_t at = begin(number); at < end(number); ++at) {
        const Instruction& instruction = block_.instructions[at];
        const auto* wait = std::get_if<Wait>(&instruction);
        // One for the whole bucket follows its start.
        if (wait == nullptr || !is_joined(wait->value, joined)) {
          out.push_back(instruction);
        }
      }
      if (number == starts_.size()) {
        break;
      }
      if (!joined[number]) {
        out.push_back(block_.instructions[starts_[number]]);
      }
      for (const Bucket& bucket : leaving[number]) {
        emit(bucket, out);
      }
    }
    block_.instructions = std::move(out);
  }

 private:
  // The instructions between collective `number` - 1 and `number`.
  size_t begin(size_t number) const {
    return number == 0 ? 0 : starts_[number - 1] + 1;
  }
  size_t end(size_t number) const {
    return number < starts_.size() ? starts_[number]
                                   : block_.instructions.size();
  }

  bool is_joined(ValueId value, const std::vector<bool>& joined) const {
    const int64_t number = made_by_[index(value)];
    return number >= 0 && joined[static_cast<size_t>(number)];
  }

  bool needs(const Bucket& bucket, const Instruction& instruction) const {
    const std::vector<ValueId> read = reads(block_, instruction);
    const auto* taking = std::get_if<Start>(&instruction);
    const bool takes =
        taking != nullptr && taking->kind == TransferKind::AllReduce;
    for (const size_t member : bucket.members) {
      const ValueId operand = start(member).operands.front();
      for (const ValueId value : read) {
        if (made_by_[index(value)] == static_cast<int64_t>(member) ||
            (takes && taking != &start(member) &&
             storage_[index(value)] == storage_[index(operand)])) {
          return true;
        }
      }
    }
    return false;
  }

  void emit(const Bucket& bucket, std::vector<Instruction>& out) const {
    Start all = start(bucket.members.front());
    for (size_t i = 1; i < bucket.members.size(); ++i) {
      const Start& one = start(bucket.members[i]);
      all.operands.push_back(one.operands.front());
      all.results.push_back(one.results.front());
    }
    const ValueId first = all.results.front();
    out.emplace_back(std::move(all));
    out.emplace_back(Wait{first});
  }

  Block& block_;
  const std::vector<ValueId> storage_;
  // Where the collectives stand.
  const std::vector<size_t> starts_;
  // By value: the collective that makes it.
  std::vector<int64_t> made_by_;
};

class Bucketing {
 public:
  explicit Bucketing(std::vector<Block>& blocks) {
    for (Block& block : blocks) {
      blocks_.emplace_back(block);
    }
  }

  void run() {
    const size_t count = blocks_.front().count();
    leaving_.resize(count);
    joined_.resize(count, false);
    for (size_t number = 0; number < count; ++number) {
      close_if([&](const Bucket& bucket) {
        return any([&](const BucketBlock& block) {
          return block.needs(bucket, number);
        });
      });
      join(number);
    }
    close_if([](const Bucket&) { return true; });
    for (BucketBlock& block : blocks_) {
      block.rewrite(leaving_, joined_);
    }
  }

 private:
  template <typename Test>
  bool any(const Test& test) const {
    return std::any_of(blocks_.begin(), blocks_.end(), test);
  }

  template <typename Test>
  void close_if(const Test& test) {
    const auto stays = std::stable_partition(open_.begin(), open_.end(), test);
    for (auto bucket = open_.begin(); bucket != stays; ++bucket) {
      leaving_[bucket->members.back()].push_back(std::move(*bucket));
    }
    open_.erase(open_.begin(), stays);
  }

  void join(size_t number) {
    if (any([&](const BucketBlock& block) {
          return !block.can_join(number);
        })) {
      return;
    }
    const BucketBlock& model = blocks_.front();
    const Start& start = model.start(number);
    const auto found =
        std::find_if(open_.begin(), open_.end(), [&](const Bucket& bucket) {
          const size_t first = bucket.members.front();
          return model.start(first).kind == start.kind &&
                 model.start(first).axes == start.axes &&
                 model.dtype(first) == model.dtype(number);
        });
    Bucket& bucket = found == open_.end() ? open_.emplace_back() : *found;
    bucket.members.push_back(number);
    joined_[number] = true;
    int64_t bytes = 0;
    for (const BucketBlock& block : blocks_) {
      bytes = std::max(bytes, block.bytes(number));
    }
    bucket.bytes += bytes;
    close_if([](const Bucket& one) { return one.bytes >= kBucketBytes; });
  }

  std::vector<BucketBlock> blocks_;
  // In the order of their first members.
  std::vector<Bucket> open_;
  // By their last members.
  std::vector<std::vector<Bucket>> leaving_;
  std::vector<bool> joined_;
};

void bucket_stage(Lowering& lowering) {
  if (start_the_same(lowering.program.blocks)) {
    Bucketing(lowering.program.blocks).run();
  }
}

}  // namespace

void bucket(Lowering& lowering) { run_by_stage(lowering, bucket_stage); }

}  // namespace weft
