// SPDX-License-Identifier: Apache-2.0
// Elements of tensors: those that are known without running the step, and what
// happens when the step asks for others.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/recorder.h"
#include "ops/bounds.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/eq.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace weft {
namespace {

// Known values are kept up to this many elements: positions of all tokens of a
// batch are among them, which models look at before they choose a mask.
constexpr int64_t kKnownElements = int64_t{1} << 23;

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
  if (arguments.size() == 1) {
    if (const auto answer = decided_comparison(
            now_.function, value_of(arguments[0].toTensor()))) {
      replace_arguments(op, stack, {c10::Scalar(*answer)});
      return;
    }
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
  if (info.name == "aten.equal") {
    guard_equal(arguments[0].toTensor(), arguments[1].toTensor());
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
  Arg expected;
  if (seen.isBoolean()) {
    expected = {seen.toBool()};
  } else if (seen.isIntegral(/*includeBool=*/false)) {
    expected = {static_cast<int64_t>(seen.toLong())};
  } else {
    expected = {seen.toDouble()};
  }
  emit_guard(value_of(tensor), std::move(expected), type_of(tensor));
}

void Recorder::emit_guard(
    ValueId value, Arg expected, TensorType type, std::vector<Option> options) {
  Node guard;
  guard.op = "weft.guard";
  guard.args = {{value}, std::move(expected)};
  if (const std::string where = place(); !where.empty()) {
    guard.options.push_back({"at", {where}});
  }
  guard.options.insert(guard.options.end(), options.begin(), options.end());
  emit(std::move(guard), "guard", {std::move(type)});
}

void Recorder::guard_equal(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes() ||
      (follows_from_constants(value_of(one)) &&
       follows_from_constants(value_of(other)))) {
    // So it is in every step.
    return;
  }
  // These calls are recorded, and the last one is guarded.
  const c10::impl::ForceDispatchKeyGuard as_called(
      c10::impl::tls_local_dispatch_key_set().included_.add(kRecordingKey),
      c10::impl::tls_local_dispatch_key_set().excluded_.remove(kRecordingKey));
  at::eq(one, other).all().item();
}

bool Recorder::is_same_value(const at::Tensor& one, const at::Tensor& other) {
  return is_same_value(value_of(one), value_of(other));
}

bool Recorder::is_same_value(ValueId one, ValueId other) const {
  if (one == other) {
    return true;
  }
  const Function& function = now_.function;
  const NodeId made = function[one].node;
  const NodeId other_made = function[other].node;
  if (made == NodeId::None || other_made == NodeId::None) {
    return false;
  }
  const Node& node = function.nodes[index(made)];
  const Node& twin = function.nodes[index(other_made)];
  if (node.op != twin.op || node.args.size() != twin.args.size() ||
      node.options.size() != twin.options.size() || node.results.size() != 1 ||
      twin.results.size() != 1 || find_option(node, kRngOption) != nullptr) {
    return false;
  }
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!is_same_arg(node.args[i], twin.args[i])) {
      return false;
    }
  }
  for (size_t i = 0; i < node.options.size(); ++i) {
    if (node.options[i].name != twin.options[i].name ||
        !is_same_arg(node.options[i].value, twin.options[i].value)) {
      return false;
    }
  }
  return true;
}

bool Recorder::is_same_arg(const Arg& one, const Arg& other) const {
  const auto* value = std::get_if<ValueId>(&one.data);
  const auto* other_value = std::get_if<ValueId>(&other.data);
  if (value != nullptr && other_value != nullptr) {
    return is_same_value(*value, *other_value);
  }
  const auto* list = std::get_if<Arg::List>(&one.data);
  const auto* other_list = std::get_if<Arg::List>(&other.data);
  if (list != nullptr && other_list != nullptr) {
    return std::equal(
        list->begin(),
        list->end(),
        other_list->begin(),
        other_list->end(),
        [this](const Arg& a, const Arg& b) { return is_same_arg(a, b); });
  }
  return one == other;
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
  const size_t count = info.functional.schema().arguments().size();
  for (const c10::IValue& argument :
       arguments.slice(0, std::min(arguments.size(), count))) {
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
