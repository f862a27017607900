// SPDX-License-Identifier: Apache-2.0
// Kernels for rows that are brought together by expert (ops/expert_rows.cpp).
#pragma once

#include "execute/kernel.h"

namespace weft {

// An empty function for any other node.
Kernel bind_expert_rows_kernel(const KernelArguments& arguments);

}  // namespace weft
