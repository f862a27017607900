// SPDX-License-Identifier: Apache-2.0
// Makes kernels write where the program says. While a call runs on a thread,
// PyTorch's allocator hands it the places of its results and its scratch
// memory; everything else goes to the allocator that was there before.
//
// A kernel does not say what it allocates for. In the first run a request of
// the size of a result gets the result's place. Where that was a guess too
// many (a temporary of the same size came first), the caller copies, and the
// order that was seen is remembered for the next run.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// What was really used, over all calls.
struct MemoryMeter {
  std::byte* base = nullptr;
  int64_t bytes = 0;
  // The end of the highest memory handed out, from `base`.
  int64_t high_bytes = 0;
  // The most that a call took beyond its scratch memory, from the system, once
  // it was known what it allocates for.
  int64_t overflow_bytes = 0;
};

// The memory of one call.
class CallMemory {
 public:
  CallMemory() = default;
  CallMemory(MemoryMeter* meter, std::byte* scratch, int64_t scratch_bytes);

  // The place of the next result; nullptr for one that the kernel does not
  // allocate. One that holds an operand is not given away on a guess: a
  // temporary in it would be read as the operand.
  void add_result(std::byte* place, int64_t bytes, bool holds_operand);

  // Between both the kernel runs, and gets this memory.
  void enter();
  void leave();

  // After the first run: result `number` came from `memory`.
  void learn(size_t number, const void* memory);
  void learned();
  bool is_learned() const { return is_learned_; }

 private:
  friend class PlacedAllocator;
  static constexpr int kScratch = -1;

  struct Place {
    std::byte* memory = nullptr;
    int64_t bytes = 0;
    bool holds_operand = false;
    bool given = false;
  };
  struct Extent {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
  };

  bool has_handed_out(const void* memory) const {
    return std::find(handed_out_.begin(), handed_out_.end(), memory) !=
           handed_out_.end();
  }
  int choose(int64_t bytes);
  std::byte* take_scratch(int64_t bytes);
  void give_back(const void* memory);

  MemoryMeter* meter_ = nullptr;
  Extent scratch_;
  std::vector<Place> results_;
  // By number of the allocation: the result it is for, or kScratch.
  std::vector<int> order_;
  bool is_learned_ = false;
  // Of this run.
  size_t count_ = 0;
  int64_t overflow_bytes_ = 0;
  std::vector<Extent> in_use_;  // of scratch, in order
  std::vector<const void*> handed_out_;
};

// Puts the allocator in place for the CPU, once for the process.
void install_placed_allocator();

}  // namespace weft
