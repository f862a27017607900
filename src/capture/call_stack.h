// SPDX-License-Identifier: Apache-2.0
// The arguments and results of a boxed call on its stack.
#pragma once

#include "capture/arguments.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <vector>

namespace weft {

// The dispatch key on which the recorder waits: below autograd, above the
// kernels, and unused by PyTorch itself.
constexpr c10::DispatchKey kRecordingKey = c10::DispatchKey::Fake;

using Arguments = std::vector<c10::IValue>;

inline Arguments arguments_of(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  return {stack.end() - static_cast<ptrdiff_t>(count), stack.end()};
}

inline void replace_arguments(
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack,
    std::vector<c10::IValue> results) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  for (c10::IValue& result : results) {
    stack->push_back(std::move(result));
  }
}

// The keys with which the call goes on to its kernel.
inline c10::DispatchKeySet below(c10::DispatchKeySet keys) {
  return keys &
         c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordingKey);
}

inline std::vector<at::Tensor> tensors_in(c10::ArrayRef<c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) {
    for_each_tensor(
        value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  }
  return tensors;
}

}  // namespace weft
