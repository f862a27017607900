// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "execute/kernel.h"

#include <string>

namespace weft {

// The model read another value than when it was captured. Thrown by a step, it
// leaves parameters, buffers and states as they were before the step.
class GuardFailed : public UserError {
 public:
  using UserError::UserError;
};

// For the node `weft.guard`: throws GuardFailed when the tensor is not what it
// was when the model was captured.
void check_guard(
    const std::string& name, const Node& node, const at::Tensor& tensor);

Kernel bind_guard_kernel(KernelArguments arguments);

}  // namespace weft
