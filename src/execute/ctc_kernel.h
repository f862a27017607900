// SPDX-License-Identifier: Apache-2.0
// Kernels of the CTC loss with lengths in tensors (ops/ctc.cpp).
#pragma once

#include "execute/kernel.h"

namespace weft {

// An empty function for any other node.
Kernel bind_ctc_kernel(const KernelArguments& arguments);

}  // namespace weft
