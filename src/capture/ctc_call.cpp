// SPDX-License-Identifier: Apache-2.0
#include "capture/ctc_call.h"

#include "aten/ctc_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

namespace weft {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename Signature>
c10::TypedOperatorHandle<Signature> handle_of(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<Signature>();
}

at::Tensor call_targets(
    const at::Tensor& targets, const at::Tensor& lengths, int64_t width) {
  static const auto op = handle_of<decltype(ctc_targets)>("weft::ctc_targets");
  return op.call(targets, std::nullopt, lengths, width);
}

std::tuple<at::Tensor, at::Tensor> call_loss(
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    int64_t blank,
    bool zero_infinity) {
  static const auto op = handle_of<decltype(ctc_loss)>("weft::ctc_loss");
  return op.call(
      log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
}

class CtcLoss : public torch::autograd::Function<CtcLoss> {
 public:
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& log_probs,
      const at::Tensor& targets,
      const at::Tensor& input_lengths,
      const at::Tensor& target_lengths,
      int64_t blank,
      bool zero_infinity) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [losses, states] = call_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        zero_infinity);
    context->save_for_backward(
        {log_probs, targets, input_lengths, target_lengths, losses, states});
    context->saved_data["blank"] = blank;
    context->saved_data["zero_infinity"] = zero_infinity;
    context->mark_non_differentiable({states});
    context->set_materialize_grads(false);
    return {losses, states};
  }

  static variable_list backward(
      AutogradContext* context, const variable_list& gradients) {
    static const auto op =
        handle_of<decltype(ctc_loss_backward)>("weft::ctc_loss_backward");
    variable_list of_inputs(6);
    if (gradients.front().defined()) {
      const variable_list saved = context->get_saved_variables();
      of_inputs[0] = op.call(
          gradients.front(),
          saved[0],
          saved[1],
          saved[2],
          saved[3],
          saved[4],
          saved[5],
          context->saved_data["blank"].toInt(),
          context->saved_data["zero_infinity"].toBool());
    }
    return of_inputs;
  }
};

std::tuple<at::Tensor, at::Tensor> loss_with_gradient(
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    int64_t blank,
    bool zero_infinity) {
  const variable_list made = CtcLoss::apply(
      log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  return {made[0], made[1]};
}

// A list of the caller's as a tensor that is a constant to the recorder.
at::Tensor constant_of(const std::vector<int64_t>& numbers) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kRecordingKey);
  return at::tensor(numbers, at::kLong);
}

struct Lengths {
  at::Tensor each;
  // No length is above it, where that is known.
  std::optional<int64_t> most;
};

Lengths lengths_in(const c10::IValue& argument, const char* name) {
  if (!argument.isTensor()) {
    const std::vector<int64_t> numbers = argument.toIntVector();
    int64_t most = 0;
    for (const int64_t number : numbers) {
      most = std::max(most, number);
    }
    return {constant_of(numbers), most};
  }
  const at::Tensor& tensor = argument.toTensor();
  TORCH_CHECK(
      at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false),
      name,
      " must be integral");
  return {tensor.reshape(-1).to(at::kLong), std::nullopt};
}

// Targets of one row a sample.
at::Tensor target_rows(
    const at::Tensor& targets, const Lengths& lengths, int64_t samples) {
  constexpr const char* kChecker = "ctc_loss_allocate_outputs";
  const at::TensorArg argument(targets, "targets", 2);
  at::checkDimRange(kChecker, argument, 1, 3);
  const at::Tensor labels = targets.to(at::kLong);
  if (targets.dim() == 1) {
    return call_targets(
        labels, lengths.each, lengths.most.value_or(targets.size(0)));
  }
  at::checkSize(kChecker, argument, 0, samples);
  return labels;
}

}  // namespace

void install_ctc_ops() {
  static torch::Library* const library = [] {
    auto* made = new torch::Library(
        torch::Library::DEF,
        "weft",
        std::nullopt,
        __FILE__,
        static_cast<uint32_t>(__LINE__));
    made->def(
        "ctc_targets(Tensor targets, Tensor? selected, Tensor lengths, int "
        "width) -> Tensor");
    made->def(
        "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, "
        "Tensor target_lengths, int blank, bool zero_infinity) -> (Tensor, "
        "Tensor)");
    made->def(
        "ctc_loss_backward(Tensor gradient, Tensor log_probs, Tensor targets, "
        "Tensor input_lengths, Tensor target_lengths, Tensor losses, Tensor "
        "states, int blank, bool zero_infinity) -> Tensor");
    made->impl("ctc_targets", c10::DispatchKey::CPU, TORCH_FN(ctc_targets));
    made->impl("ctc_loss", c10::DispatchKey::CPU, TORCH_FN(ctc_loss));
    made->impl(
        "ctc_loss_backward",
        c10::DispatchKey::CPU,
        TORCH_FN(ctc_loss_backward));
    made->impl(
        "ctc_loss",
        c10::DispatchKey::AutogradCPU,
        TORCH_FN(loss_with_gradient));
    return made;
  }();
  (void)library;
}

at::Tensor ctc_loss_by_tensors(const Arguments& arguments) {
  const at::Tensor& given = arguments[0].toTensor();
  const bool is_batched = given.dim() == 3;
  const at::Tensor log_probs = is_batched ? given : given.unsqueeze(1);
  const int64_t samples = log_probs.size(1);
  const Lengths inputs = lengths_in(arguments[2], "input_lengths");
  const Lengths targets = lengths_in(arguments[3], "target_lengths");
  const int64_t blank = arguments[4].toInt();
  const int64_t reduction = arguments[5].toInt();
  const bool zero_infinity = arguments[6].toBool();
  TORCH_CHECK(
      blank >= 0 && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK(
      inputs.each.size(0) == samples,
      "input_lengths must be of size batch_size");
  TORCH_CHECK(
      targets.each.size(0) == samples,
      "target_lengths must be of size batch_size");
  const at::Tensor rows =
      target_rows(arguments[1].toTensor(), targets, samples);
  at::Tensor losses = std::get<0>(call_loss(
      log_probs, rows, inputs.each, targets.each, blank, zero_infinity));
  if (zero_infinity) {
    losses = at::where(
        losses == at::Scalar(std::numeric_limits<double>::infinity()),
        at::zeros({}, losses.options()),
        losses);
  }
  if (reduction == at::Reduction::Sum) {
    return losses.sum();
  }
  if (reduction == at::Reduction::Mean) {
    return (losses / targets.each.to(losses.scalar_type()).clamp_min(1)).mean();
  }
  return is_batched ? losses : losses.squeeze(0);
}

}  // namespace weft
