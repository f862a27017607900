// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same in every step.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/recorder.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace weft {
namespace {

std::optional<at::Generator> generator_in(
    c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (argument.isGenerator() && argument.toGenerator().defined()) {
      return argument.toGenerator();
    }
  }
  return std::nullopt;
}

at::Tensor fresh_like(const at::Tensor& tensor) {
  return at::empty_strided(
      tensor.sizes(),
      tensor.strides(),
      at::TensorOptions(tensor.scalar_type()).device(at::kCPU));
}

}  // namespace

at::Tensor Recorder::drawn_from(const OpInfo& info, const at::Tensor& tensor) {
  // Only its type counts where PyTorch calls the operator rand_like and the
  // like, or new_empty.
  const std::string& name = info.functional.operator_name().name;
  if (name.ends_with("_like") ||
      (info.def != nullptr && !info.def->factory.empty())) {
    return fresh_like(tensor);
  }
  if (mode_ == RecordMode::Hollow) {
    if (const at::Tensor* elements = known(tensor)) {
      return *elements;
    }
  } else if (follows_from_constants(value_of(tensor))) {
    return tensor;
  }
  refuse(
      false,
      cat("[capture] ",
          info.name,
          in_module(),
          " draws random numbers from a generator that the step seeds itself, "
          "and what they become depends on more than constants. Weft draws "
          "random numbers by seed, step and element: seed outside of the step "
          "and leave out `generator`, or draw with torch.rand and the like and "
          "compute with what comes"));
}

bool Recorder::call_with_script_numbers(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    torch::jit::Stack* stack) {
  // Whatever takes a generator is marked as random. What builds the model runs
  // once.
  if (!info.random || phase_ == Phase::Init) {
    return false;
  }
  const Arguments arguments = arguments_of(op, *stack);
  const auto generator = generator_in(arguments);
  if (!generator && mode_ == RecordMode::Real &&
      current_phase() == Phase::Recompute) {
    // What repeats a forward puts the generator back to where that began.
    return false;
  }
  const bool draws =
      generator || (info.def != nullptr && info.def->kind == OpKind::Random);
  if (!draws || !generators_.is_seeded_by_step(generator)) {
    return false;
  }
  std::vector<c10::IValue> real;
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_written =
        std::find(info.mutated.begin(), info.mutated.end(), i) !=
        info.mutated.end();
    real.push_back(map_tensors(arguments[i], [&](const at::Tensor& tensor) {
      if (!tensor.defined()) {
        return tensor;
      }
      if (!is_written) {
        return drawn_from(info, tensor);
      }
      written.push_back(fresh_like(tensor));
      return written.back();
    }));
  }
  std::vector<at::Tensor> targets;
  for (const size_t i : info.mutated) {
    check_written(info, arguments[i].toTensor());
    targets.push_back(arguments[i].toTensor());
  }
  {
    const RecordingPause pause;
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    replace_arguments(op, stack, std::move(real));
    op.callBoxed(stack);
  }
  if (targets.empty()) {
    return true;
  }
  // These copies are recorded.
  const c10::impl::ForceDispatchKeyGuard as_called(
      c10::impl::tls_local_dispatch_key_set().included_.add(kRecordingKey),
      c10::impl::tls_local_dispatch_key_set().excluded_.remove(kRecordingKey));
  for (size_t i = 0; i < targets.size(); ++i) {
    targets[i].copy_(written[i]);
  }
  torch::jit::drop(*stack, op.schema().returns().size());
  for (const at::Tensor& target : targets) {
    stack->push_back(target);
  }
  return true;
}

}  // namespace weft
