// SPDX-License-Identifier: Apache-2.0
#include "execute/placed_allocator.h"

#include "program/live_bytes.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <tuple>
#include <utility>

namespace weft {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
// Orders in which temporaries choose their places.
constexpr int kTries = 64;

thread_local CallMemory* current = nullptr;

template <typename Extent>
void join_touching(std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end(), [](const auto& a, const auto& b) {
    return a.begin < b.begin;
  });
  std::vector<Extent> joined;
  for (const Extent& each : extents) {
    if (!joined.empty() && each.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, each.end);
    } else {
      joined.push_back(each);
    }
  }
  extents = std::move(joined);
}

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
    std::byte* memory =
        call->is_learned_ ? call->later_run(wanted) : call->first_run(wanted);
    if (memory != nullptr) {
      return {memory, memory, &give_back, c10::Device(c10::kCPU)};
    }
    c10::DataPtr other = before_->allocate(bytes);
    if (!call->is_learned_) {
      // Watched like the rest: it may become a result.
      call->requests_.back().memory = static_cast<std::byte*>(other.get());
      void* raw = other.get();
      std::ignore = other.release_context();
      return {raw, raw, &give_back_to_system, c10::Device(c10::kCPU)};
    }
    return other;
  }

  // Memory whose owner nobody knows may be of either kind.
  c10::DeleterFnPtr raw_deleter() const override { return &raw_give_back; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  static void give_back(void* memory) {
    if (current != nullptr) {
      current->freed(memory);
    }
  }

  static void give_back_to_system(void* memory) {
    give_back(memory);
    c10::GetDefaultCPUAllocator()->raw_deleter()(memory);
  }

  static void raw_give_back(void* memory) {
    if (current != nullptr && current->has_handed_out(memory)) {
      current->freed(memory);
    } else {
      c10::GetDefaultCPUAllocator()->raw_deleter()(memory);
    }
  }

  c10::Allocator* const before_;
};

CallMemory::CallMemory(MemoryMeter* meter) : meter_(meter) {}

void CallMemory::add_room(std::byte* memory, int64_t bytes) {
  rooms_.push_back({memory, memory + bytes});
}

void CallMemory::add_result(std::byte* place, int64_t bytes, bool is_fresh) {
  results_.push_back({{place, place + bytes}, is_fresh, false});
}

void CallMemory::enter() {
  next_ = 0;
  time_ = 0;
  overflow_bytes_ = 0;
  current = this;
}

void CallMemory::leave() { current = nullptr; }

std::byte* CallMemory::first_run(int64_t bytes) {
  Request request;
  request.bytes = bytes;
  request.begin = time_++;
  request.end = kEnd;
  const auto fitting =
      std::find_if(results_.begin(), results_.end(), [bytes](const Place& p) {
        // A temporary in the place of an operand would be read as it.
        return p.extent.begin != nullptr && p.is_fresh && !p.is_given &&
               p.extent.end - p.extent.begin == bytes;
      });
  if (fitting != results_.end()) {
    fitting->is_given = true;
    request.memory = fitting->extent.begin;
  }
  requests_.push_back(request);
  return request.memory;
}

std::byte* CallMemory::later_run(int64_t bytes) {
  if (next_ < requests_.size() && requests_[next_].bytes == bytes &&
      requests_[next_].memory != nullptr) {
    std::byte* memory = requests_[next_++].memory;
    // What is resident does not count.
    const int64_t end = memory - meter_->base + bytes;
    if (memory >= meter_->base && end <= meter_->bytes) {
      meter_->high_bytes = std::max(meter_->high_bytes, end);
    }
    return memory;
  }
  ++next_;
  overflow_bytes_ += bytes;
  meter_->overflow_bytes = std::max(meter_->overflow_bytes, overflow_bytes_);
  return nullptr;
}

void CallMemory::freed(const void* memory) {
  if (is_learned_) {
    return;
  }
  const auto found = std::find_if(
      requests_.rbegin(), requests_.rend(), [memory](const Request& each) {
        return each.memory == memory && each.end == kEnd;
      });
  if (found != requests_.rend()) {
    found->end = time_++;
  }
}

bool CallMemory::has_handed_out(const void* memory) const {
  return std::any_of(
      requests_.begin(), requests_.end(), [memory](const Request& each) {
        return each.memory == memory;
      });
}

void CallMemory::learn(size_t number, const void* memory) {
  // The last one that was given this memory still has it.
  const auto found = std::find_if(
      requests_.rbegin(), requests_.rend(), [memory](const Request& each) {
        return each.memory == memory;
      });
  if (found != requests_.rend() &&
      found->bytes ==
          results_[number].extent.end - results_[number].extent.begin) {
    found->result = static_cast<int>(number);
  }
}

void CallMemory::learned() {
  pack();
  is_learned_ = true;
}

void CallMemory::pack() {
  std::vector<size_t> order;
  for (size_t i = 0; i < requests_.size(); ++i) {
    Request& request = requests_[i];
    if (request.result < 0) {
      order.push_back(i);
    } else {
      request.memory =
          results_[static_cast<size_t>(request.result)].extent.begin;
      request.end = kEnd;
    }
  }
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return requests_[a].bytes > requests_[b].bytes;
  });
  std::vector<Request> best;
  int64_t least_bytes = kEnd;
  for (int tries = 0; tries < kTries && least_bytes > 0; ++tries) {
    for (const size_t i : order) {
      requests_[i].memory = nullptr;
    }
    int64_t left_bytes = 0;
    size_t first_left = 0;
    for (size_t at = 0; at < order.size(); ++at) {
      Request& request = requests_[order[at]];
      request.memory = find_place(request);
      if (request.memory == nullptr) {
        first_left = left_bytes == 0 ? at : first_left;
        left_bytes += request.bytes;
      }
    }
    if (left_bytes < least_bytes) {
      least_bytes = left_bytes;
      best = requests_;
    }
    // What found no place is the first to choose one.
    const auto begin = order.begin();
    const auto left = begin + static_cast<std::ptrdiff_t>(first_left);
    std::rotate(begin, left, left + 1);
  }
  requests_ = std::move(best);
}

std::byte* CallMemory::find_place(const Request& request) const {
  // Rooms and the places of results, joined where they touch.
  std::vector<Extent> rooms = rooms_;
  for (const Place& place : results_) {
    if (place.extent.begin != nullptr && place.is_fresh) {
      const int64_t bytes = aligned(place.extent.end - place.extent.begin);
      rooms.push_back({place.extent.begin, place.extent.begin + bytes});
    }
  }
  join_touching(rooms);
  // Of a convolution of many groups there are thousands, but few at once.
  std::vector<Request> others;
  std::copy_if(
      requests_.begin(),
      requests_.end(),
      std::back_inserter(others),
      [&](const Request& other) {
        return &other != &request && other.memory != nullptr &&
               other.begin < request.end && request.begin < other.end;
      });
  const int64_t bytes = aligned(request.bytes);
  std::vector<std::byte*> starts;
  for (const Extent& room : rooms) {
    // At either end, or beside something that lies in it.
    starts.push_back(room.begin);
    starts.push_back(room.end - bytes);
    for (const Request& other : others) {
      if (other.memory >= room.begin && other.memory < room.end) {
        starts.push_back(other.memory + aligned(other.bytes));
        starts.push_back(other.memory - bytes);
      }
    }
  }
  for (const Extent& room : rooms_) {
    starts.push_back(room.begin);
  }
  const auto is_elsewhere = [this](const std::byte* memory) {
    return rooms_.empty() || memory < rooms_.front().begin ||
           memory >= rooms_.front().end;
  };
  std::sort(starts.begin(), starts.end(), [&](auto* a, auto* b) {
    return std::pair(is_elsewhere(a), a) < std::pair(is_elsewhere(b), b);
  });
  for (std::byte* start : starts) {
    const Extent wanted = {start, start + request.bytes};
    const bool lies_in_one =
        std::any_of(rooms.begin(), rooms.end(), [&](const Extent& room) {
          return room.begin <= wanted.begin && wanted.end <= room.end;
        });
    if (lies_in_one && is_free(wanted, request, others)) {
      return start;
    }
  }
  return nullptr;
}

bool CallMemory::is_free(
    const Extent& extent,
    const Request& request,
    const std::vector<Request>& others) const {
  for (const Request& other : others) {
    if (other.memory < extent.end &&
        extent.begin < other.memory + other.bytes) {
      return false;
    }
  }
  // A result that was not allocated here is copied to its place at the end; so
  // what it is copied from must lie elsewhere.
  return request.end != kEnd ||
         std::none_of(
             results_.begin(), results_.end(), [&](const Place& place) {
               return place.extent.begin < extent.end &&
                      extent.begin < place.extent.end;
             });
}

void install_placed_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Lives as long as the process: tensors may be freed at its very end.
    c10::SetAllocator(
        c10::kCPU, new PlacedAllocator(c10::GetCPUAllocator()), 100);
  });
}

}  // namespace weft
