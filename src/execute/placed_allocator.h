// SPDX-License-Identifier: Apache-2.0
// Makes kernels write where the program says. While a call runs on a thread,
// PyTorch's allocator hands it the places of its results and room for its
// temporaries; everything else goes to the allocator that was there before.
//
// A kernel does not say what it allocates for, but it allocates the same every
// time. The first run is watched: a request of the size of a result gets the
// result's place, anything else room or memory of the system, and where a guess
// was wrong the caller copies. From then on every request has its address
// beforehand; temporaries also lie where a result will be that the kernel
// allocates only after it has freed them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// What was really used, over all calls but their first.
struct MemoryMeter {
  std::byte* base = nullptr;
  int64_t bytes = 0;
  // The end of the highest memory handed out, from `base`.
  int64_t high_bytes = 0;
  // The most that a call took from the system because it found no room.
  int64_t overflow_bytes = 0;
};

// The memory of one call.
class CallMemory {
 public:
  explicit CallMemory(MemoryMeter* meter);

  // Memory that the call may use for itself, tried in the order in which it was
  // added.
  void add_room(std::byte* memory, int64_t bytes);
  // The place of the next result; nullptr for one that the kernel does not
  // allocate. `is_fresh`: nothing lies there that the kernel reads.
  void add_result(std::byte* place, int64_t bytes, bool is_fresh);

  // Between both the kernel runs, and gets this memory.
  void enter();
  void leave();

  // After the first run: result `number` came from `memory`; then all did.
  void learn(size_t number, const void* memory);
  void learned();
  bool is_learned() const { return is_learned_; }

 private:
  friend class PlacedAllocator;

  struct Extent {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
  };
  struct Place {
    Extent extent;
    bool is_fresh = false;
    bool is_given = false;
  };
  // One allocation of the call, in its order; times count allocations and
  // frees.
  struct Request {
    int64_t bytes = 0;
    std::byte* memory = nullptr;
    int64_t begin = 0;
    int64_t end = 0;
    int result = -1;
  };

  std::byte* first_run(int64_t bytes);
  std::byte* later_run(int64_t bytes);
  void freed(const void* memory);
  bool has_handed_out(const void* memory) const;
  // Gives the temporaries their addresses.
  void pack();
  std::byte* find_place(const Request& request) const;
  // Beside `others`, which live at the same time as the request.
  bool is_free(
      const Extent& extent,
      const Request& request,
      const std::vector<Request>& others) const;

  MemoryMeter* meter_ = nullptr;
  std::vector<Extent> rooms_;
  std::vector<Place> results_;
  std::vector<Request> requests_;
  bool is_learned_ = false;
  // Of this run.
  size_t next_ = 0;
  int64_t time_ = 0;
  int64_t overflow_bytes_ = 0;
};

// Puts the allocator in place for the CPU, once for the process.
void install_placed_allocator();

}  // namespace weft
