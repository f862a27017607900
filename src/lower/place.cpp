// SPDX-License-Identifier: Apache-2.0
// Gives every storage that is not resident its place in the arena, so that what
// lives at the same time lies apart. The storages of one bucket lie side by
// side, in its order.
//
// Packing rectangles of (time, bytes) as low as possible is hard; two greedy
// orders are tried, the largest first and the earliest first, and the lower
// arena is taken.
#include "lower/in_place.h"
#include "lower/pass.h"
#include "program/live_bytes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace weft {
namespace {

// Storages that have one lifetime and lie side by side; or a call's scratch.
struct Item {
  int64_t begin = 0;
  int64_t end = 0;  // the last instruction of its life
  int64_t bytes = 0;
  // Of each storage, within the item.
  std::vector<std::pair<ValueId, int64_t>> storages;
  NodeId scratch_of = NodeId::None;
  int64_t scratch_bytes = 0;
};

class Placement {
 public:
  explicit Placement(Block& block)
      : block_(block),
        storage_(storages(block)),
        tiers_(tiers(block)),
        item_of_(block.function.values.size(), -1) {}

  void run() {
    collect();
    std::vector<size_t> order(items_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return items_[a].bytes > items_[b].bytes;
    });
    const Packing by_size = pack(order);
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return items_[a].begin < items_[b].begin;
    });
    const Packing by_time = pack(order);
    write(by_size.bytes <= by_time.bytes ? by_size : by_time);
  }

 private:
  void collect() {
    std::vector<bool> resident(storage_.size(), false);
    for (const Input& input : block_.function.inputs) {
      resident[index(input.value)] = is_resident(input);
      begin(input.value, -1, resident);
    }
    const auto end = static_cast<int64_t>(block_.instructions.size());
    for (int64_t at = 0; at < end; ++at) {
      const Instruction& instruction =
          block_.instructions[static_cast<size_t>(at)];
      for (const ValueId made : makes(block_, instruction)) {
        begin(made, at, resident);
      }
      if (const auto* start = std::get_if<Start>(&instruction)) {
        join_bucket(*start);
      } else if (const auto* free = std::get_if<Free>(&instruction)) {
        for (const ValueId value : free->values) {
          finish(value, at);
        }
      } else if (const auto* call = std::get_if<Call>(&instruction)) {
        add_scratch(call->node, at);
      }
    }
    std::erase_if(items_, [](const Item& item) { return item.bytes == 0; });
  }

  void begin(ValueId value, int64_t at, const std::vector<bool>& resident) {
    const int64_t bytes = storage_bytes(block_, value);
    if (storage_[index(value)] != value || resident[index(value)] ||
        tiers_[index(value)] != Tier::Device || bytes == 0) {
      return;
    }
    item_of_[index(value)] = static_cast<int64_t>(items_.size());
    Item item;
    item.begin = at;
    item.end = static_cast<int64_t>(block_.instructions.size());
    item.bytes = aligned(bytes);
    item.storages = {{value, 0}};
    items_.push_back(std::move(item));
  }

  // All into the item of the first; the others become empty.
  void join_bucket(const Start& start) {
    if (start.kind != TransferKind::AllReduce || start.operands.size() < 2) {
      return;
    }
    const auto item_of = [this](ValueId operand) {
      return static_cast<size_t>(item_of_[index(storage_[index(operand)])]);
    };
    Item& into = items_[item_of(start.operands.front())];
    for (size_t i = 1; i < start.operands.size(); ++i) {
      Item& from = items_[item_of(start.operands[i])];
      const ValueId storage = from.storages.front().first;
      into.begin = std::min(into.begin, from.begin);
      into.storages.emplace_back(storage, into.bytes);
      into.bytes += from.bytes;
      from.bytes = 0;
      item_of_[index(storage)] =
          item_of_[index(storage_[index(start.operands.front())])];
    }
    bucket_left_[&into - items_.data()] = start.operands.size();
  }

  void finish(ValueId value, int64_t at) {
    const int64_t number = item_of_[index(storage_[index(value)])];
    if (number < 0) {
      return;
    }
    // A bucket ends with the last of its storages.
    const auto left = bucket_left_.find(number);
    if (left == bucket_left_.end() || --left->second == 0) {
      items_[static_cast<size_t>(number)].end = at;
    }
  }

  void add_scratch(NodeId node, int64_t at) {
    const int64_t bytes =
        call_scratch_bytes(block_.function, block_.function.nodes[index(node)]);
    if (bytes == 0) {
      return;
    }
    Item item;
    item.begin = at;
    item.end = at;
    item.bytes = aligned(bytes);
    item.scratch_of = node;
    item.scratch_bytes = bytes;
    items_.push_back(std::move(item));
  }

  struct Packing {
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
  };

  // Each item in turn at the lowest place where it fits. A storage that is
  // freed at an instruction may be used again from the next one on.
  Packing pack(const std::vector<size_t>& order) const {
    Packing packing;
    packing.offsets.assign(items_.size(), 0);
    // Sorted by offset.
    std::vector<size_t> placed;
    for (const size_t number : order) {
      const Item& item = items_[number];
      int64_t offset = 0;
      for (const size_t other : placed) {
        const Item& there = items_[other];
        if (there.end < item.begin || item.end < there.begin) {
          continue;
        }
        const int64_t start = packing.offsets[other];
        if (start >= offset + item.bytes) {
          break;
        }
        offset = std::max(offset, start + there.bytes);
      }
      packing.offsets[number] = offset;
      packing.bytes = std::max(packing.bytes, offset + item.bytes);
      const auto at = std::upper_bound(
          placed.begin(),
          placed.end(),
          offset,
          [&](int64_t value, size_t other) {
            return value < packing.offsets[other];
          });
      placed.insert(at, number);
    }
    return packing;
  }

  void write(const Packing& packing) {
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      for (const auto& [storage, within] : item.storages) {
        block_.offsets[index(storage)] = packing.offsets[i] + within;
      }
      if (item.scratch_of != NodeId::None) {
        block_.scratch[index(item.scratch_of)] = {
            packing.offsets[i], item.scratch_bytes};
      }
    }
  }

  Block& block_;
  const std::vector<ValueId> storage_;
  const std::vector<Tier> tiers_;
  std::vector<Item> items_;
  // By storage; -1 for those that need no place.
  std::vector<int64_t> item_of_;
  // By item: how many storages of the bucket are not freed yet.
  std::map<int64_t, size_t> bucket_left_;
};

}  // namespace

void place(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    Placement(block).run();
  }
}

}  // namespace weft
