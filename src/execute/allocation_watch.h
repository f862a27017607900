// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

// Memory handed out, or with negative bytes taken back.
struct AllocationEvent {
  const void* memory = nullptr;
  int64_t bytes = 0;
};

// Counts the bytes that PyTorch's CPU allocator hands out and takes back on
// this thread while it is open: what eager PyTorch really uses, to hold
// predictions against. Memory given out before it was opened and freed later
// lowers `live_bytes` below what was counted, so open it first.
class AllocationWatch {
 public:
  // Each event is written down where `events` says, too.
  explicit AllocationWatch(std::vector<AllocationEvent>* events = nullptr);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  int64_t live_bytes() const;
  int64_t peak_bytes() const;
  // The peak counts anew from what is live now.
  void reset_peak();
  void close();

 private:
  struct Counter;
  std::shared_ptr<Counter> counter_;
  bool open_ = false;
};

}  // namespace weft
