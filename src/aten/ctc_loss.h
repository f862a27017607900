// SPDX-License-Identifier: Apache-2.0
// The CTC loss with lengths in tensors and sizes that do not depend on them
// (ops/ctc.cpp), by PyTorch's own kernels: the results have their bits, and
// lengths that do not fit are c10::Errors with their words. Lengths and
// targets are i64 on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace weft {

// Targets that stand one after the other, as rows of `width`, with zeros behind
// each. Where `selected` is given, only these elements are looked at.
at::Tensor ctc_targets(
    const at::Tensor& targets,
    const std::optional<at::Tensor>& selected,
    const at::Tensor& lengths,
    int64_t width);

// The loss of each sample, and what backward needs of forward: 2 s + 1 states
// where `targets` are [n, s], with zeros where the longest target has fewer.
std::tuple<at::Tensor, at::Tensor> ctc_loss(
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    int64_t blank,
    bool zero_infinity);

// The gradient of log_probs.
at::Tensor ctc_loss_backward(
    const at::Tensor& gradient,
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    const at::Tensor& losses,
    const at::Tensor& states,
    int64_t blank,
    bool zero_infinity);

}  // namespace weft
