// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/kernel.h"

namespace weft {

// The step of an optimizer node, bit for bit what torch.optim gives on a CPU
// with foreach=False and fused=False (with fused=True where the node says so),
// for the elements that the tensors hold. The learning rate is read at every
// call, in the precision of its tensor.
Kernel bind_optimizer_kernel(KernelArguments arguments);

}  // namespace weft
