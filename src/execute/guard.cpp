// SPDX-License-Identifier: Apache-2.0
#include "execute/guard.h"

#include "base/error.h"
#include "ops/call.h"

#include <ATen/ops/_local_scalar_dense.h>

#include <cmath>
#include <utility>

namespace weft {

namespace {

// As Python writes it.
std::string value_text(double value, const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kBool) {
    return value != 0 ? "True" : "False";
  }
  return cat(value);
}

}  // namespace

void check_guard(
    const std::string& name, const Node& node, const at::Tensor& tensor) {
  const double seen = at::_local_scalar_dense(tensor).toDouble();
  const double expected = number_arg(node, 1, 0);
  if (seen == expected || (std::isnan(seen) && std::isnan(expected))) {
    return;
  }
  const Arg* at = find_option(node, "at");
  if (find_option(node, "decides") != nullptr) {
    throw GuardFailed(
        cat("[guard] ",
            at == nullptr ? name : std::get<std::string>(at->data),
            ": the elements of this tensor decide a shape, and they are others "
            "than those that the step was captured with. Use a mask "
            "(torch.where, multiplication by 0/1) or a fixed size (topk, "
            "capacity) instead"));
  }
  throw GuardFailed(
      cat("[guard] ",
          at == nullptr ? name : std::get<std::string>(at->data),
          ": the model read ",
          value_text(expected, tensor),
          " from this tensor when it was captured and took its path by that; "
          "now it is ",
          value_text(seen, tensor),
          ". Capture with a batch for which it holds, or remove the branch"));
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
