// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/kernel.h"

namespace weft {

// A random node (of OpKind::Random, or with the option `rng`). The element at
// an index of the whole value gets the same number on whichever rank and in
// whichever layout it is made. Only nodes that a plan cannot split
// (aten.randperm, and operators without an entry) draw from PyTorch's
// generator, seeded by the same three numbers.
Kernel bind_random_kernel(KernelArguments arguments);

}  // namespace weft
