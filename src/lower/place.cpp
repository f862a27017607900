// SPDX-License-Identifier: Apache-2.0
// Gives every storage that is not resident its place in the arena, so that what
// lives at the same time lies apart. The storages of one bucket lie side by
// side, in its order.
//
// Packing rectangles of (time, bytes) as low as possible is hard; two greedy
// orders are tried, the largest first and the earliest first, and the lower
// arena is taken.
//
// A kernel that makes a result only after it has given back temporaries gets
// its scratch right below that result, so that they may lie across both.
#include "lower/in_place.h"
#include "lower/pass.h"
#include "lower/temporaries.h"
#include "program/live_bytes.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace weft {
namespace {

// Storages that have one lifetime and lie side by side; or a call's scratch; or
// both, the scratch below, of which the call that makes the storage has use.
struct PlacedItem {
  int64_t begin = 0;
  int64_t end = 0;  // the last instruction of its life
  int64_t bytes = 0;
  // Of the scratch below, which is there at `begin` alone.
  int64_t foot_bytes = 0;
  // Of each storage, within the item.
  std::vector<std::pair<ValueId, int64_t>> storages;
  NodeId scratch_of = NodeId::None;
  int64_t scratch_bytes = 0;
};

int64_t whole_bytes(const PlacedItem& item) {
  return item.foot_bytes + item.bytes;
}

// The lowest offset from `offset` up at which the item lies apart from another
// that is at `start`.
int64_t lift(
    const PlacedItem& item,
    int64_t offset,
    const PlacedItem& other,
    int64_t start) {
  struct Part {
    int64_t from = 0;
    int64_t to = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  const auto parts = [](const PlacedItem& it) {
    return std::array<Part, 2>{
        Part{it.foot_bytes, whole_bytes(it), it.begin, it.end},
        Part{0, it.foot_bytes, it.begin, it.begin}};
  };
  for (const Part& there : parts(other)) {
    for (const Part& part : parts(item)) {
      const bool meet = there.begin <= part.end && part.begin <= there.end &&
                        part.from < part.to && there.from < there.to;
      if (meet && offset + part.from < start + there.to &&
          start + there.from < offset + part.to) {
        offset = start + there.to - part.from;
      }
    }
  }
  return offset;
}

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
      return whole_bytes(items_[a]) > whole_bytes(items_[b]);
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
      }
    }
    for (int64_t at = 0; at < end; ++at) {
      const auto* call =
          std::get_if<Call>(&block_.instructions[static_cast<size_t>(at)]);
      if (call != nullptr &&
          call_scratch_bytes(
              block_.function, block_.function.nodes[index(call->node)]) > 0) {
        add_scratch(call->node, at);
      }
    }
    std::erase_if(
        items_, [](const PlacedItem& item) { return item.bytes == 0; });
  }

  void begin(ValueId value, int64_t at, const std::vector<bool>& resident) {
    const int64_t bytes = storage_bytes(block_, value);
    if (storage_[index(value)] != value || resident[index(value)] ||
        tiers_[index(value)] != Tier::Device || bytes == 0) {
      return;
    }
    item_of_[index(value)] = static_cast<int64_t>(items_.size());
    PlacedItem item;
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
    PlacedItem& into = items_[item_of(start.operands.front())];
    for (size_t i = 1; i < start.operands.size(); ++i) {
      PlacedItem& from = items_[item_of(start.operands[i])];
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

  // Once it is known which storages lie in buckets.
  void add_scratch(NodeId id, int64_t at) {
    const Node& node = block_.function.nodes[index(id)];
    const KernelMemory memory = memory_of(block_.function, node);
    // The last result to be made, and the item that is its storage alone.
    size_t last = 0;
    for (size_t i = 0; i < memory.results.size(); ++i) {
      last = memory.results[i] > memory.results[last] ? i : last;
    }
    const int64_t number =
        memory.results.empty() ? -1 : item_of_[index(node.results[last])];
    if (number >= 0) {
      PlacedItem& item = items_[static_cast<size_t>(number)];
      if (item.storages.size() == 1) {
        item.foot_bytes = room_bytes(memory, last, item.bytes);
        item.scratch_of = id;
        item.scratch_bytes = item.foot_bytes;
        return;
      }
    }
    PlacedItem item;
    item.begin = at;
    item.end = at;
    item.scratch_of = id;
    item.scratch_bytes = room_bytes(memory, last, 0);
    item.bytes = aligned(item.scratch_bytes);
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
    struct Placed {
      int64_t offset = 0;
      int64_t begin = 0;
      int64_t end = 0;
      size_t number = 0;
    };
    // Sorted by offset.
    std::vector<Placed> placed;
    for (const size_t number : order) {
      const PlacedItem& item = items_[number];
      int64_t offset = 0;
      // Again when it was moved: its two parts meet others at other times.
      for (bool moved = true; moved;) {
        moved = false;
        for (const Placed& other : placed) {
          if (other.offset >= offset + whole_bytes(item)) {
            break;
          }
          // Most live at other times.
          if (other.end < item.begin || other.begin > item.end) {
            continue;
          }
          const int64_t above =
              lift(item, offset, items_[other.number], other.offset);
          moved = moved || above > offset;
          offset = above;
        }
      }
      packing.offsets[number] = offset;
      packing.bytes = std::max(packing.bytes, offset + whole_bytes(item));
      const auto at = std::upper_bound(
          placed.begin(),
          placed.end(),
          offset,
          [](int64_t value, const Placed& other) {
            return value < other.offset;
          });
      placed.insert(at, {offset, item.begin, item.end, number});
    }
    return packing;
  }

  void write(const Packing& packing) {
    for (size_t i = 0; i < items_.size(); ++i) {
      const PlacedItem& item = items_[i];
      for (const auto& [storage, within] : item.storages) {
        block_.offsets[index(storage)] =
            packing.offsets[i] + item.foot_bytes + within;
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
  std::vector<PlacedItem> items_;
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
