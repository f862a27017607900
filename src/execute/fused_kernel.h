// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/kernel.h"

namespace weft {

// The kernels of two calls as one (ops/fused.cpp); an empty function for any
// other node.
Kernel bind_fused_kernel(const KernelArguments& arguments);

}  // namespace weft
