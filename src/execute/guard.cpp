// SPDX-License-Identifier: Apache-2.0
#include "execute/guard.h"

#include "base/error.h"
#include "ops/call.h"

#include <ATen/ops/_local_scalar_dense.h>

#include <cmath>
#include <utility>

namespace weft {

void check_guard(
    const std::string& name, const Node& node, const at::Tensor& tensor) {
  const double seen = at::_local_scalar_dense(tensor).toDouble();
  const double expected = number_arg(node, 1, 0);
  WEFT_CHECK_USER(
      seen == expected || (std::isnan(seen) && std::isnan(expected)),
      "[guard] ",
      name,
      ": the model read ",
      expected,
      " from this tensor when it was captured and took its path by that; now "
      "it is ",
      seen,
      ". Capture with a batch for which it holds, or remove the branch");
}

Kernel bind_guard_kernel(KernelArguments arguments) {
  const std::string name =
      arguments.function[arguments.node.results.front()].name;
  return [name,
          node = arguments.node,
          from = arguments.operands.front(),
          to = arguments.results.front()](const StepContext&) {
    check_guard(name, node, from);
    if (!to.is_same(from)) {
      to.copy_(from);
    }
  };
}

}  // namespace weft
