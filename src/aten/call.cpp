// SPDX-License-Identifier: Apache-2.0
#include "aten/call.h"

#include "aten/types.h"
#include "base/error.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <optional>
#include <string>
#include <utility>

namespace weft {
namespace {

// "aten.add.Tensor" is aten::add, overload Tensor.
c10::OperatorHandle find_operator(const std::string& op) {
  std::vector<std::string> parts = split(op, '.');
  WEFT_CHECK_USER(
      parts.size() == 2 || parts.size() == 3,
      "not the name of an operator: ",
      op);
  std::string overload = parts.size() == 3 ? parts[2] : "";
  std::optional<c10::OperatorHandle> found =
      c10::Dispatcher::singleton().findSchema(
          {parts[0] + "::" + parts[1], overload});
  WEFT_CHECK_USER(found.has_value(), "PyTorch has no operator ", op);
  return *found;
}

// Without the Optional around it.
const c10::Type& plain_type(const c10::Type& type) {
  if (const auto optional = type.castRaw<c10::OptionalType>()) {
    return *optional->getElementType();
  }
  return type;
}

bool is_list(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ListType;
}

const c10::Type& element_type(const c10::Type& list) {
  return *list.castRaw<c10::ListType>()->getElementType();
}

bool holds_tensors(const c10::Type& type) {
  const c10::Type& plain = plain_type(type);
  return plain.kind() == c10::TypeKind::TensorType ||
         (is_list(plain) &&
          plain_type(element_type(plain)).kind() == c10::TypeKind::TensorType);
}

double to_double(const Arg& arg) {
  if (const auto* integer = std::get_if<int64_t>(&arg.data)) {
    return static_cast<double>(*integer);
  }
  if (const auto* flag = std::get_if<bool>(&arg.data)) {
    return *flag ? 1 : 0;
  }
  return std::get<double>(arg.data);
}

template <typename T, typename Convert>
c10::IValue to_list(const Arg::List& items, Convert&& convert) {
  c10::List<T> list;
  for (const Arg& item : items) {
    list.push_back(convert(item));
  }
  return list;
}

c10::IValue list_value(const Arg::List& items, c10::TypeKind kind) {
  switch (kind) {
    case c10::TypeKind::FloatType:
      return to_list<double>(items, to_double);
    case c10::TypeKind::BoolType:
      return to_list<bool>(
          items, [](const Arg& item) { return std::get<bool>(item.data); });
    case c10::TypeKind::NumberType:
      return to_list<at::Scalar>(items, [](const Arg& item) {
        const auto* integer = std::get_if<int64_t>(&item.data);
        return integer != nullptr ? at::Scalar(*integer)
                                  : at::Scalar(to_double(item));
      });
    default:
      return to_list<int64_t>(
          items, [](const Arg& item) { return std::get<int64_t>(item.data); });
  }
}

// Everything but tensors. The schema's type decides between an integer and a
// float; enumerations are integers to the dispatcher.
c10::IValue plain_value(const Arg& arg, const c10::Type& declared) {
  const c10::Type& type = plain_type(declared);
  if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
    return list_value(*list, plain_type(element_type(type)).kind());
  }
  if (is_list(type)) {
    return list_value({arg}, plain_type(element_type(type)).kind());
  }
  if (const auto* dtype = std::get_if<DType>(&arg.data)) {
    return static_cast<int64_t>(scalar_type_of(*dtype));
  }
  if (const auto* symbol = std::get_if<Symbol>(&arg.data)) {
    return static_cast<int64_t>(memory_format_of(symbol->text));
  }
  if (const auto* text = std::get_if<std::string>(&arg.data)) {
    return *text;
  }
  if (type.kind() == c10::TypeKind::FloatType) {
    return to_double(arg);
  }
  if (const auto* flag = std::get_if<bool>(&arg.data)) {
    return *flag;
  }
  if (const auto* integer = std::get_if<int64_t>(&arg.data)) {
    return *integer;
  }
  return std::get<double>(arg.data);
}

// The number of x + 1, as eager PyTorch makes it a tensor: it takes the type
// of x. Nothing for an argument that is not a number.
std::optional<at::Tensor> number_tensor(const Arg& arg) {
  if (const auto* flag = std::get_if<bool>(&arg.data)) {
    return at::native::wrapped_scalar_tensor(*flag);
  }
  if (const auto* integer = std::get_if<int64_t>(&arg.data)) {
    return at::native::wrapped_scalar_tensor(*integer);
  }
  if (const auto* number = std::get_if<double>(&arg.data)) {
    return at::native::wrapped_scalar_tensor(*number);
  }
  return std::nullopt;
}

// A value of a Graph is its elements: no mark says that they are to be read
// conjugated or negated.
at::Tensor without_marks(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.is_conj() || tensor.is_neg())
             ? tensor.clone()
             : tensor;
}

void add_results(const c10::IValue& value, std::vector<at::Tensor>& results) {
  if (value.isTensor()) {
    results.push_back(without_marks(value.toTensor()));
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      results.push_back(without_marks(tensor));
    }
  }
}

}  // namespace

AtenCall::AtenCall(const Node& node, c10::Device device)
    : op_(find_operator(node.op)) {
  const std::vector<c10::Argument>& schema = op_.schema().arguments();
  bool has_tensors = false;
  arguments_.resize(schema.size());
  for (size_t i = 0; i < schema.size(); ++i) {
    has_tensors = has_tensors || holds_tensors(*schema[i].type());
    arguments_[i] = schema[i].default_value().value_or(c10::IValue());
  }
  WEFT_CHECK_USER(
      node.args.size() <= schema.size(),
      node.op,
      " takes at most ",
      schema.size(),
      " arguments, not ",
      node.args.size());
  for (size_t i = 0; i < node.args.size(); ++i) {
    set(i, node.args[i]);
  }
  for (const Option& option : node.options) {
    if (option.name == kRngOption || option.name == kLocalOption) {
      continue;
    }
    std::optional<int> position =
        op_.schema().argumentIndexWithName(option.name);
    WEFT_CHECK_USER(
        position.has_value(), node.op, " takes no argument ", option.name);
    set(static_cast<size_t>(*position), option.value);
  }
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!has_tensors && schema[i].name() == "device") {
      arguments_[i] = device;
    }
    if (schema[i].name() == "storage_offset" && arguments_[i].isInt()) {
      offset_at_ = i;
    }
  }
}

void AtenCall::set(size_t position, const Arg& arg) {
  const c10::Argument& argument = op_.schema().arguments()[position];
  if (std::holds_alternative<None>(arg.data)) {
    arguments_[position] = c10::IValue();
    return;
  }
  if (holds_tensors(*argument.type())) {
    if (std::optional<at::Tensor> number = number_tensor(arg)) {
      arguments_[position] = *std::move(number);
    } else {
      set_tensors(position, arg);
    }
    return;
  }
  try {
    arguments_[position] = plain_value(arg, *argument.type());
  } catch (const std::bad_variant_access&) {
    throw UserError(
        cat(toString(op_.operator_name()),
            ": argument ",
            argument.name(),
            " is not of type ",
            argument.type()->str()));
  }
}

void AtenCall::set_tensors(size_t position, const Arg& arg) {
  const c10::Argument& argument = op_.schema().arguments()[position];
  const c10::Type& type = plain_type(*argument.type());
  Slot slot;
  slot.position = position;
  if (is_list(type)) {
    slot.kind = element_type(type).kind() == c10::TypeKind::OptionalType
                    ? Slot::Kind::OptionalList
                    : Slot::Kind::List;
  }
  auto add = [&](const Arg& item) {
    bool absent = std::holds_alternative<None>(item.data);
    WEFT_CHECK_USER(
        absent || std::holds_alternative<ValueId>(item.data),
        toString(op_.operator_name()),
        ": argument ",
        argument.name(),
        " is not a tensor");
    slot.operands.push_back(absent ? -1 : operand_count_++);
  };
  if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
    for (const Arg& item : *list) {
      add(item);
    }
  } else {
    add(arg);
  }
  slots_.push_back(std::move(slot));
}

std::vector<c10::IValue> AtenCall::arguments(
    c10::ArrayRef<at::Tensor> operands) const {
  WEFT_CHECK(
      operands.size() == static_cast<size_t>(operand_count_),
      toString(op_.operator_name()),
      " takes ",
      operand_count_,
      " tensors, not ",
      operands.size());
  std::vector<c10::IValue> stack = arguments_;
  for (const Slot& slot : slots_) {
    auto at = [&](int operand) {
      return operand < 0 ? at::Tensor()
                         : operands[static_cast<size_t>(operand)];
    };
    if (slot.kind == Slot::Kind::Tensor) {
      stack[slot.position] = at(slot.operands[0]);
    } else if (slot.kind == Slot::Kind::List) {
      c10::List<at::Tensor> list;
      for (int operand : slot.operands) {
        list.push_back(at(operand));
      }
      stack[slot.position] = std::move(list);
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (int operand : slot.operands) {
        list.push_back(operand < 0 ? std::nullopt : std::optional(at(operand)));
      }
      stack[slot.position] = std::move(list);
    }
  }
  if (offset_at_) {
    stack[*offset_at_] =
        stack[*offset_at_].toInt() + operands.front().storage_offset();
  }
  return stack;
}

std::vector<at::Tensor> AtenCall::operator()(
    c10::ArrayRef<at::Tensor> operands) const {
  std::vector<c10::IValue> stack = arguments(operands);
  at::AutoDispatchBelowADInplaceOrView guard;
  op_.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) {
    add_results(value, results);
  }
  return results;
}

}  // namespace weft
