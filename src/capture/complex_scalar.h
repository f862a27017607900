// SPDX-License-Identifier: Apache-2.0
// Calls with a complex number of Python's, which a Graph has no argument for.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft {

// A Python number like 2j beside these tensors. It is a tensor without dims in
// a Graph, of the element type in which PyTorch computes with the number: that
// does not change the type of the result.
at::Tensor complex_number(
    const at::Scalar& number, const std::vector<at::Tensor>& beside);

// Whether the call has a complex number and could be made with a tensor in its
// place: by the overload that takes one there (pow, fill_, masked_fill), or, of
// the number that add and sub multiply by, by a product before. The results are
// on the stack then.
bool call_with_complex_tensor(
    const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace weft
