// SPDX-License-Identifier: Apache-2.0
// Shapes that data decide: where the deciding elements are given with the batch
// or with the model, and are not what is trained, they are read whole. The step
// is then the one for these elements, and a guard says so.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/constant_part.h"
#include "capture/recorder.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace weft {

bool Recorder::follows_from_constants(ValueId value) const {
  return known_origin(
             now_.function,
             value,
             [](const Input& input) {
               return input.kind == InputKind::Constant;
             })
      .has_value();
}

bool Recorder::follows_from_batch(ValueId value) const {
  return known_origin(
             now_.function,
             value,
             [](const Input& input) {
               return input.kind != InputKind::Parameter &&
                      input.kind != InputKind::State;
             })
      .has_value();
}

void Recorder::guard_elements(ValueId value, const at::Tensor& elements) {
  Node same;
  same.op = "aten.eq.Tensor";
  same.args = {{value}, {add_constant(elements)}};
  const TensorType type = type_of(elements);
  const ValueId each =
      emit(std::move(same), "eq", {{DType::Bool, type.sizes, {}}}).front();
  Node all;
  all.op = "aten.all";
  all.args = {{each}};
  const ValueId answer =
      emit(std::move(all), "all", {{DType::Bool, {}, {}}}).front();
  emit_guard(
      answer,
      {true},
      {DType::Bool, {}, {}},
      {{"decides", {std::string("shapes")}}});
}

at::Tensor Recorder::read_elements(const at::Tensor& tensor) {
  if (mode_ == RecordMode::Hollow) {
    if (const at::Tensor* elements = known(tensor)) {
      return *elements;
    }
  }
  const ValueId value = value_of(tensor);
  if (!follows_from_batch(value)) {
    return {};
  }
  if (mode_ == RecordMode::Hollow) {
    refuse(
        true,
        cat("[capture] a shape depends on elements that the model is given",
            in_module()));
  }
  const RecordingPause pause;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor elements = tensor.detach().clone();
  // What builds the model runs once.
  if (phase_ != Phase::Init && elements.numel() > 0 &&
      read_.insert(static_cast<int32_t>(value)).second) {
    guard_elements(value, elements.clone());
  }
  return elements;
}

bool Recorder::call_by_elements(
    const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Arguments arguments = arguments_of(op, *stack);
  // A tensor that cannot be read ends it before any is guarded.
  for (const at::Tensor& tensor : tensors_in(arguments)) {
    if (tensor.defined() && !follows_from_batch(value_of(tensor))) {
      return false;
    }
  }
  std::vector<c10::IValue> read;
  read.reserve(arguments.size());
  for (const c10::IValue& argument : arguments) {
    read.push_back(map_tensors(argument, [&](const at::Tensor& tensor) {
      return tensor.defined() ? read_elements(tensor) : tensor;
    }));
  }
  const RecordingPause pause;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  replace_arguments(op, stack, std::move(read));
  op.callBoxed(stack);
  return true;
}

}  // namespace weft
