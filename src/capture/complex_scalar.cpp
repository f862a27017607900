// SPDX-License-Identifier: Apache-2.0
#include "capture/complex_scalar.h"

#include "capture/arguments.h"
#include "capture/call_stack.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <optional>

namespace weft {
namespace {

// The operator of the same name that takes a tensor where this one takes a
// number, and all else alike.
std::optional<c10::OperatorHandle> form_with_tensor(
    const c10::OperatorHandle& op, size_t number) {
  const auto& ours = op.schema().arguments();
  for (const c10::OperatorName& name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != op.operator_name().name) {
      continue;
    }
    const auto found = c10::Dispatcher::singleton().findSchema(name);
    if (!found || found->schema().arguments().size() < ours.size()) {
      continue;
    }
    const auto& theirs = found->schema().arguments();
    bool is_alike = true;
    for (size_t i = 0; i < theirs.size() && is_alike; ++i) {
      if (i >= ours.size()) {
        // mul.Tensor has no more than mul.Scalar; add.Tensor has alpha.
        is_alike = theirs[i].default_value().has_value();
      } else if (i == number) {
        is_alike = theirs[i].type()->kind() == c10::TypeKind::TensorType;
      } else {
        is_alike = *theirs[i].type() == *ours[i].type();
      }
    }
    if (is_alike) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

at::Tensor complex_number(
    const at::Scalar& number, const std::vector<at::Tensor>& beside) {
  at::native::ResultTypeState state = {};
  for (const at::Tensor& tensor : beside) {
    if (tensor.defined()) {
      state = at::native::update_result_type_state(tensor, state);
    }
  }
  const bool is_double = at::native::result_type(state) == at::kComplexDouble;
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  return at::scalar_tensor(
      number, is_double ? at::kComplexDouble : at::kComplexFloat);
}

bool call_with_complex_tensor(
    const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto first =
      stack->end() - static_cast<ptrdiff_t>(op.schema().arguments().size());
  const auto found =
      std::find_if(first, stack->end(), [](const c10::IValue& value) {
        return value.isComplexDouble();
      });
  if (found == stack->end() || found == first) {
    return false;
  }
  const auto number = static_cast<size_t>(found - first);
  Arguments arguments = arguments_of(op, *stack);
  const at::Tensor tensor =
      complex_number(arguments[number].toScalar(), tensors_in(arguments));
  const std::string& name = op.operator_name().name;
  if (op.schema().arguments()[number].name() == "alpha" && number == 2 &&
      arguments[1].isTensor() && (name == "aten::add" || name == "aten::sub")) {
    arguments[1] = at::mul(arguments[1].toTensor(), tensor);
    arguments[2] = at::Scalar(1);
    replace_arguments(op, stack, std::move(arguments));
    op.callBoxed(stack);
    return true;
  }
  const std::optional<c10::OperatorHandle> form = form_with_tensor(op, number);
  if (!form) {
    return false;
  }
  arguments[number] = tensor;
  for (size_t i = arguments.size(); i < form->schema().arguments().size();
       ++i) {
    arguments.push_back(*form->schema().arguments()[i].default_value());
  }
  replace_arguments(op, stack, std::move(arguments));
  form->callBoxed(stack);
  return true;
}

}  // namespace weft
