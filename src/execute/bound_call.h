// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "aten/call.h"
#include "execute/placed_allocator.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <vector>

namespace weft {

// One call of PyTorch's dispatcher with all its tensors known beforehand:
// operands and results lie at fixed places, so a run only copies the arguments
// onto the stack and calls the kernel.
class BoundCall {
 public:
  // `results` say where the results belong; undefined for those that the kernel
  // leaves undefined. `memory` has their places, in the same order.
  BoundCall(
      const AtenCall& call,
      const std::vector<at::Tensor>& operands,
      std::vector<at::Tensor> results,
      CallMemory memory);

  // `stack` is empty before and after. Must run below autograd. Throws
  // InternalError when the kernel gives other sizes or strides than promised;
  // c10::Error passes through.
  void run(torch::jit::Stack& stack);

 private:
  void accept(size_t number, const at::Tensor& made);
  void accept_first(const std::vector<at::Tensor>& made);

  c10::OperatorHandle op_;
  // Of the kernel to run; empty when the dispatcher has to choose by itself
  // (operators without tensors).
  c10::DispatchKeySet keys_;
  std::vector<c10::IValue> arguments_;
  std::vector<at::Tensor> results_;
  CallMemory memory_;
};

}  // namespace weft
