// SPDX-License-Identifier: Apache-2.0
#include "execute/placed_allocator.h"

#include "program/live_bytes.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace weft {
namespace {

thread_local CallMemory* current = nullptr;

}  // namespace

class PlacedAllocator final : public c10::Allocator {
 public:
  explicit PlacedAllocator(c10::Allocator* before) : before_(before) {}

  c10::DataPtr allocate(size_t bytes) override {
    CallMemory* call = current;
    if (call == nullptr || bytes == 0) {
      return before_->allocate(bytes);
    }
    const auto wanted = static_cast<int64_t>(bytes);
    const int result = call->choose(wanted);
    std::byte* memory = nullptr;
    if (result != CallMemory::kScratch) {
      CallMemory::Place& place = call->results_[static_cast<size_t>(result)];
      place.given = true;
      memory = place.memory;
    } else {
      memory = call->take_scratch(wanted);
    }
    if (memory == nullptr) {
      call->overflow_bytes_ += wanted;
      if (call->is_learned_) {
        call->meter_->overflow_bytes =
            std::max(call->meter_->overflow_bytes, call->overflow_bytes_);
      }
      c10::DataPtr other = before_->allocate(bytes);
      call->handed_out_.push_back(other.get());
      return other;
    }
    call->handed_out_.push_back(memory);
    // What is resident does not count.
    const int64_t end = memory - call->meter_->base + wanted;
    if (memory >= call->meter_->base && end <= call->meter_->bytes) {
      call->meter_->high_bytes = std::max(call->meter_->high_bytes, end);
    }
    return {memory, memory, &give_back, c10::Device(c10::kCPU)};
  }

  // Memory whose owner nobody knows may be of either kind.
  c10::DeleterFnPtr raw_deleter() const override { return &raw_give_back; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void give_back(void* memory) {
    if (current != nullptr) {
      current->give_back(memory);
    }
  }

  static void raw_give_back(void* memory) {
    if (current != nullptr && current->has_handed_out(memory)) {
      current->give_back(memory);
    } else {
      c10::GetDefaultCPUAllocator()->raw_deleter()(memory);
    }
  }

  c10::Allocator* const before_;
};

CallMemory::CallMemory(
    MemoryMeter* meter, std::byte* scratch, int64_t scratch_bytes)
    : meter_(meter), scratch_{scratch, scratch + scratch_bytes} {}

void CallMemory::add_result(
    std::byte* place, int64_t bytes, bool holds_operand) {
  results_.push_back({place, bytes, holds_operand, false});
}

void CallMemory::enter() {
  count_ = 0;
  overflow_bytes_ = 0;
  in_use_.clear();
  handed_out_.clear();
  for (Place& place : results_) {
    place.given = false;
  }
  current = this;
}

void CallMemory::leave() { current = nullptr; }

int CallMemory::choose(int64_t bytes) {
  const size_t number = count_++;
  const auto fits = [bytes](const Place& place) {
    return place.memory != nullptr && !place.given && place.bytes == bytes;
  };
  if (is_learned_) {
    const int known = number < order_.size() ? order_[number] : kScratch;
    return known != kScratch && fits(results_[static_cast<size_t>(known)])
               ? known
               : kScratch;
  }
  const auto found = std::find_if(
      results_.begin(), results_.end(), [&fits](const Place& place) {
        return fits(place) && !place.holds_operand;
      });
  return found == results_.end()
             ? kScratch
             : static_cast<int>(found - results_.begin());
}

std::byte* CallMemory::take_scratch(int64_t bytes) {
  std::byte* begin = scratch_.begin;
  auto at = in_use_.begin();
  for (; at != in_use_.end() && at->begin - begin < bytes; ++at) {
    begin = at->end;
  }
  if (scratch_.end - begin < bytes) {
    return nullptr;
  }
  in_use_.insert(at, {begin, begin + aligned(bytes)});
  return begin;
}

void CallMemory::give_back(const void* memory) {
  std::erase_if(
      in_use_, [memory](const Extent& each) { return each.begin == memory; });
}

void CallMemory::learn(size_t number, const void* memory) {
  order_.resize(handed_out_.size(), kScratch);
  for (size_t i = 0; i < handed_out_.size(); ++i) {
    // The last one that was given this memory still has it.
    if (handed_out_[i] == memory) {
      std::replace(order_.begin(), order_.end(), static_cast<int>(number), kScratch);
      order_[i] = static_cast<int>(number);
    }
  }
}

void CallMemory::learned() { is_learned_ = true; }

void install_placed_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Lives as long as the process: tensors may be freed at its very end.
    c10::SetAllocator(
        c10::kCPU, new PlacedAllocator(c10::GetCPUAllocator()), 100);
  });
}

}  // namespace weft
