// SPDX-License-Identifier: Apache-2.0
// Elements of tensors: those that are known without running the step, and what
// happens when the step asks for others.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/recorder.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace weft {
namespace {

// Known values are kept up to this many elements.
constexpr int64_t kKnownElements = 4096;

}  // namespace

void Recorder::call_value_read(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const Arguments arguments = arguments_of(op, *stack);
  bool all_known = mode_ == RecordMode::Hollow;
  Arguments real;
  for (const c10::IValue& argument : arguments) {
    real.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
      const at::Tensor* value = all_known ? known(tensor) : nullptr;
      all_known &= value != nullptr;
      return value ? *value : tensor;
    }));
  }
  if (all_known) {
    replace_arguments(op, stack, {});
    for (c10::IValue& argument : real) {
      stack->push_back(std::move(argument));
    }
    op.redispatchBoxed(below(keys), stack);
    return;
  }
  if (mode_ == RecordMode::Hollow) {
    refuse(
        true,
        cat("[capture] the model reads a value while it runs (",
            info.name,
            ")",
            in_module()));
  }
  op.redispatchBoxed(below(keys), stack);
  if (phase_ == Phase::Init) {
    return;
  }
  WEFT_CHECK_USER(
      info.name == "aten._local_scalar_dense",
      "[capture] ",
      info.name,
      " compares tensors to decide what to run next: compare a sum or a "
      "maximum with .item() instead, so that the value can be guarded");
  const at::Tensor& tensor = arguments.front().toTensor();
  const at::Scalar seen = stack->back().toScalar();
  Node guard;
  guard.op = "weft.guard";
  guard.args = {{value_of(tensor)}};
  if (seen.isBoolean()) {
    guard.args.push_back({seen.toBool()});
  } else if (seen.isIntegral(/*includeBool=*/false)) {
    guard.args.push_back({static_cast<int64_t>(seen.toLong())});
  } else {
    guard.args.push_back({seen.toDouble()});
  }
  emit(std::move(guard), "guard", {type_of(tensor)});
}

at::Tensor Recorder::known_elements(const at::Tensor& tensor) {
  const at::Tensor* elements = known(tensor);
  return elements ? *elements : at::Tensor();
}

const at::Tensor* Recorder::known(const at::Tensor& tensor) {
  const auto found = known_.find(static_cast<int32_t>(value_of(tensor)));
  return found == known_.end() ? nullptr : &found->second;
}

void Recorder::compute_known(
    const OpInfo& info,
    c10::ArrayRef<c10::IValue> arguments,
    const std::vector<ValueId>& results) {
  if (mode_ != RecordMode::Hollow || info.random || results.empty()) {
    return;
  }
  for (const ValueId id : results) {
    if (element_count(now_.function[id].type) > kKnownElements) {
      return;
    }
  }
  bool all_known = true;
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) {
    stack.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
      if (!all_known || !tensor.defined() ||
          tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
        return tensor;
      }
      const at::Tensor* value = known(tensor);
      all_known &= value != nullptr;
      return value ? *value : tensor;
    }));
    if (!all_known) {
      return;
    }
  }
  const RecordingPause pause;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  info.functional.callBoxed(&stack);
  const std::vector<at::Tensor> values = tensors_in(stack);
  for (size_t i = 0; i < values.size() && i < results.size(); ++i) {
    if (values[i].defined()) {
      known_[static_cast<int32_t>(results[i])] = values[i];
    }
  }
}

}  // namespace weft
