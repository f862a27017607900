// SPDX-License-Identifier: Apache-2.0
#include "simulate/reuse.h"

#include "program/live_bytes.h"

#include <algorithm>

namespace weft {
namespace {

// Of the arena, what is used together.
constexpr int64_t kPageBytes = 64 << 10;

class Reuse {
 public:
  Reuse(const Block& block, const std::vector<NodeCosts>& costs)
      : block_(block),
        costs_(costs),
        storage_(storages(block)),
        used_at_(storage_.size(), 0) {}

  std::vector<std::vector<Use>> run() {
    // Once to learn what a step uses last.
    std::vector<std::vector<Use>> uses;
    for (int step = 0; step < 2; ++step) {
      uses.assign(block_.instructions.size(), {});
      for (size_t i = 0; i < uses.size(); ++i) {
        follow(block_.instructions[i], uses[i]);
      }
    }
    return uses;
  }

 private:
  void follow(const Instruction& instruction, std::vector<Use>& uses) {
    begin_ = moved_bytes_;
    const std::vector<ValueId> read = reads(block_, instruction);
    const std::vector<ValueId> made = makes(block_, instruction);
    if (const auto* call = std::get_if<Call>(&instruction)) {
      const NodeCosts& cost = costs_[index(call->node)];
      if (cost.is_free) {
        return;
      }
      add_uses(read, cost.read_bytes, uses);
      add_uses(made, cost.written_bytes, uses);
      moved_bytes_ += cost.read_bytes + cost.written_bytes;
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      moved_bytes_ += transfer_bytes(block_, *start);
    } else {
      return;
    }
    for (const std::vector<ValueId>& values : {read, made}) {
      for (const ValueId value : values) {
        for_each_place(value, [this](int64_t& used_at) { used_at = begin_; });
      }
    }
  }

  // No more than `left` bytes together: of a table that is looked up, a call
  // uses a part.
  void add_uses(
      const std::vector<ValueId>& values,
      int64_t left,
      std::vector<Use>& uses) {
    for (const ValueId value : values) {
      const TensorType& type = block_.function[value].type;
      const int64_t bytes = std::min(
          {left,
           storage_bytes(type),
           element_count(type) * element_bytes(type.dtype)});
      left -= bytes;
      int64_t places = 0;
      int64_t since = 0;
      for_each_place(value, [&](const int64_t& used_at) {
        places += 1;
        since += begin_ - used_at;
      });
      uses.push_back({bytes, since / std::max<int64_t>(places, 1)});
    }
  }

  // What had been moved when each part of its memory was used last. What has
  // no place in the arena has a memory of its own.
  template <typename Visit>
  void for_each_place(ValueId value, const Visit& visit) {
    const ValueId storage = storage_[index(value)];
    const int64_t offset = index(storage) < block_.offsets.size()
                               ? block_.offsets[index(storage)]
                               : -1;
    if (offset < 0) {
      visit(used_at_[index(storage)]);
      return;
    }
    const int64_t end = offset + storage_bytes(block_, storage);
    const auto last =
        static_cast<size_t>((std::max(end, offset + 1) - 1) / kPageBytes);
    if (last >= pages_.size()) {
      pages_.resize(last + 1, 0);
    }
    for (auto page = static_cast<size_t>(offset / kPageBytes); page <= last;
         ++page) {
      visit(pages_[page]);
    }
  }

  const Block& block_;
  const std::vector<NodeCosts>& costs_;
  const std::vector<ValueId> storage_;
  // By storage, what had been moved when it was used last; and by page of the
  // arena.
  std::vector<int64_t> used_at_;
  std::vector<int64_t> pages_;
  int64_t moved_bytes_ = 0;
  // Before the instruction.
  int64_t begin_ = 0;
};

}  // namespace

bool has_caches(const Device& device) {
  return std::any_of(
      device.efficiencies.begin(),
      device.efficiencies.end(),
      [](const Efficiency& curve) {
        return curve.work == Work::Memory &&
               std::any_of(
                   curve.points.begin(),
                   curve.points.end(),
                   [&](const auto& point) {
                     return point.second > curve.points.back().second;
                   });
      });
}

std::vector<std::vector<Use>> uses_of(
    const Block& block, const std::vector<NodeCosts>& costs) {
  return Reuse(block, costs).run();
}

}  // namespace weft
