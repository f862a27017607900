// SPDX-License-Identifier: Apache-2.0
// Operators that PyTorch answers after a look at the data which no dispatcher
// sees, and how they are recorded instead.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <optional>

namespace weft {

// Those that PyTorch takes apart above a recorder.
inline constexpr std::array<const char*, 4> kComposites = {
    "aten::one_hot",
    "aten::ctc_loss.IntList",
    "aten::ctc_loss.Tensor",
    "aten::cross_entropy_loss"};

// The same result by other calls; nothing for other operators, and where the
// arguments leave the shape of the result open.
//   one_hot with `num_classes`, bincount with `minlength`: shapes do not depend
//     on data. An index outside the stated size is an error of the calls.
//   ctc_loss: lengths in tensors are operands (ctc_call.h).
//   cross_entropy_loss with class weights and label smoothing: the weights of
//     labels that are passed over count as 0 instead of being left out.
std::optional<at::Tensor> call_in_other_words(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace weft
