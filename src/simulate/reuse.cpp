// SPDX-License-Identifier: Apache-2.0
#include "simulate/reuse.h"

#include "program/live_bytes.h"

#include <algorithm>

namespace weft {
namespace {

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
    const int64_t begin = moved_bytes_;
    if (const auto* call = std::get_if<Call>(&instruction)) {
      const NodeCosts& cost = costs_[index(call->node)];
      if (cost.is_free) {
        return;
      }
      int64_t left = cost.read_bytes;
      for (const ValueId value : reads(block_, instruction)) {
        const TensorType& type = block_.function[value].type;
        const int64_t bytes = std::min(
            {left,
             storage_bytes(type),
             element_count(type) * element_bytes(type.dtype)});
        left -= bytes;
        uses.push_back({bytes, begin - used_at(value)});
      }
      moved_bytes_ += cost.read_bytes + cost.written_bytes;
    } else if (const auto* start = std::get_if<Start>(&instruction)) {
      moved_bytes_ += transfer_bytes(block_, *start);
    } else {
      return;
    }
    for (const ValueId value : reads(block_, instruction)) {
      used_at(value) = begin;
    }
    for (const ValueId value : makes(block_, instruction)) {
      used_at(value) = begin;
    }
  }

  int64_t& used_at(ValueId value) {
    return used_at_[index(storage_[index(value)])];
  }

  const Block& block_;
  const std::vector<NodeCosts>& costs_;
  const std::vector<ValueId> storage_;
  // By storage, what had been moved when it was used last.
  std::vector<int64_t> used_at_;
  int64_t moved_bytes_ = 0;
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
