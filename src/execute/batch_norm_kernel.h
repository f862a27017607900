// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/kernel.h"

namespace weft {

// The kernels of weft.batch_norm_* (ops/global_batch_norm.cpp); an empty
// function for any other node.
Kernel bind_batch_norm_kernel(const KernelArguments& arguments);

}  // namespace weft
