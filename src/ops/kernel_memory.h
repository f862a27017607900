// SPDX-License-Identifier: Apache-2.0
// What a CPU kernel takes for itself while it runs, one piece after the other.
#pragma once

#include "ops/op_def.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// Taken at moment `begin` of the kernel's run and given back before `end`.
struct Temporary {
  int64_t bytes = 0;
  int begin = 0;
  int end = 0;
};

// Moments count from 0, one for each piece that is taken.
struct KernelMemory {
  // In the order in which the kernel asks for them.
  std::vector<Temporary> temporaries;
  // When each result is made: before, its place is free. Empty: at 0, all.
  std::vector<int> results;
};

// For an entry's `scratch_bytes`: a count that also says what it is made of. A
// kernel that gives back temporaries before it makes its results has most at
// one moment and its results at another. Which kernel runs depends on the
// machine: the count is for one of them, and another may know better
// (ask_kernels).
struct ScratchCount {
  KernelMemory (*memory)(const Function& function, const Node& node) = nullptr;
  // The least batch for which PyTorch chooses as it does for the node's; none:
  // any.
  int64_t (*same_from)(const Function& function, const Node& node) = nullptr;

  // The most that is alive besides all results.
  int64_t operator()(const Function& function, const Node& node) const;
};

// For ops with and without an entry. Where the entry has a plain count, that is
// one temporary, there from the first moment to the last; of a kernel of ours
// (weft.*), its work_bytes.
KernelMemory memory_of(const Function& function, const Node& node);

// Knows what kernels take on the machine at hand, or else gives nothing.
using KernelMemorySource =
    std::optional<KernelMemory> (*)(const Function& function, const Node& node);

// From now on, everywhere in this process, it is asked for whatever has a
// ScratchCount, before that is. May be asked by several threads at once.
void ask_kernels(KernelMemorySource source);

// While one lives, counts hold on its thread and nobody is asked: for whoever
// looks at many shapes, roughly.
class CountedKernels {
 public:
  CountedKernels();
  ~CountedKernels();
  CountedKernels(const CountedKernels&) = delete;
  CountedKernels& operator=(const CountedKernels&) = delete;
};

// Writes down what a kernel takes, in its order.
class KernelRun {
 public:
  // Which temporary; -1 for one of no bytes.
  using Taken = int;

  explicit KernelRun(size_t results) { memory_.results.assign(results, 0); }

  Taken take(int64_t bytes);
  std::vector<Taken> take_all(const std::vector<int64_t>& bytes);
  void give_back(const std::vector<Taken>& taken);
  void make(size_t result) { memory_.results[result] = now_++; }

  // What was not given back yet is now.
  KernelMemory finish();

 private:
  KernelMemory memory_;
  int now_ = 0;
};

}  // namespace weft
