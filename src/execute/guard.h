// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/kernel.h"

namespace weft {

// For the node `weft.guard`: throws UserError when the tensor is not what it
// was when the model was captured.
void check_guard(
    const std::string& name, const Node& node, const at::Tensor& tensor);

// Checks, and passes the tensor on.
Kernel bind_guard_kernel(KernelArguments arguments);

}  // namespace weft
