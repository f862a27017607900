// SPDX-License-Identifier: Apache-2.0
// What kernels take on this machine, seen by calling them.
//
// A library has many kernels for one operator and chooses by the processor;
// each takes memory of its own. So those operators whose entries have a
// ScratchCount are called once for each shape, on zeros, and what the allocator
// hands out is written down. Where that would take long it is continued from
// two small batches: most of what is taken grows evenly, and what does not has
// some bytes added for every image.
#pragma once

#include "graph/graph.h"
#include "ops/kernel_memory.h"

#include <optional>

namespace weft {

// Calls with more flops are continued.
inline constexpr int64_t kQuickFlops = 1'000'000'000;

// As the kernel takes it with one thread. Nothing where even a small batch
// would take long, or a call fails.
std::optional<KernelMemory> observed_memory(
    const Function& function,
    const Node& node,
    int64_t quick_flops = kQuickFlops);

// From now on lowering in this process asks for it. Repeating it does nothing.
void observe_kernels();

}  // namespace weft
