// SPDX-License-Identifier: Apache-2.0
#include "capture/arguments.h"

#include "aten/types.h"
#include "base/error.h"

#include <ATen/core/List.h>

namespace weft {
namespace {

Arg scalar_arg(const c10::IValue& value) {
  const at::Scalar scalar = value.toScalar();
  if (scalar.isBoolean()) {
    return {scalar.toBool()};
  }
  if (scalar.isIntegral(/*includeBool=*/false)) {
    return {static_cast<int64_t>(scalar.toLong())};
  }
  WEFT_CHECK_USER(
      !scalar.isComplex(),
      "[capture] complex numbers as arguments are not supported: use a tensor");
  return {scalar.toDouble()};
}

Arg arg_of(const c10::IValue& value, ArgForm form, const ValueOf& value_of) {
  if (value.isNone()) {
    return {None{}};
  }
  if (form == ArgForm::DType) {
    return {dtype_of(static_cast<at::ScalarType>(value.toInt()))};
  }
  if (form == ArgForm::MemoryFormat) {
    return {Symbol{
        std::string(name(static_cast<at::MemoryFormat>(value.toInt())))}};
  }
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() ? value_of(tensor) : Arg{None{}};
  }
  if (value.isString()) {
    return {value.toStringRef()};
  }
  if (value.isBool()) {
    return {value.toBool()};
  }
  if (value.isInt() || value.isSymInt()) {
    return {static_cast<int64_t>(value.toSymInt().expect_int())};
  }
  if (value.isDouble()) {
    return {value.toDouble()};
  }
  if (value.isList()) {
    Arg::List items;
    for (const c10::IValue& item : value.toListRef()) {
      items.push_back(arg_of(item, form, value_of));
    }
    return {std::move(items)};
  }
  if (value.isIntList() || value.isDoubleList() || value.isBoolList() ||
      value.isTensorList()) {
    Arg::List items;
    for (const c10::IValue& item : value.toList()) {
      items.push_back(arg_of(item, form, value_of));
    }
    return {std::move(items)};
  }
  if (value.isScalar()) {
    return scalar_arg(value);
  }
  throw UserError(
      cat("[capture] an argument of kind ",
          value.tagKind(),
          " cannot be written into a graph"));
}

bool is_default(const c10::Argument& argument, const c10::IValue& value) {
  if (!argument.default_value()) {
    return false;
  }
  const c10::IValue& standard = *argument.default_value();
  if (standard.isNone() || value.isNone()) {
    return standard.isNone() && value.isNone();
  }
  if (value.isTensor()) {
    return false;
  }
  return standard == value;
}

}  // namespace

void write_arguments(
    const OpInfo& info,
    c10::ArrayRef<c10::IValue> arguments,
    const ValueOf& value_of,
    Node& node) {
  const auto& schema = info.functional.schema().arguments();
  WEFT_CHECK(arguments.size() <= schema.size(), info.name);
  size_t positional = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!schema[i].kwarg_only() && info.forms[i] != ArgForm::Dropped &&
        !is_default(schema[i], arguments[i])) {
      positional = i + 1;
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (info.forms[i] == ArgForm::Dropped) {
      WEFT_CHECK(i >= positional, info.name, " drops a leading argument");
      continue;
    }
    if (!schema[i].kwarg_only()) {
      if (i < positional) {
        node.args.push_back(arg_of(arguments[i], info.forms[i], value_of));
      }
    } else if (!is_default(schema[i], arguments[i])) {
      node.options.push_back(
          {schema[i].name(), arg_of(arguments[i], info.forms[i], value_of)});
    }
  }
}

void for_each_tensor(
    const c10::IValue& value,
    const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      visit(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      for_each_tensor(item, visit);
    }
  }
}

c10::IValue map_tensors(
    const c10::IValue& value,
    const std::function<at::Tensor(const at::Tensor&)>& replace) {
  if (value.isTensor()) {
    return replace(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(replace(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor :
         value.toOptionalTensorVector()) {
      list.push_back(
          tensor ? std::optional<at::Tensor>(replace(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

}  // namespace weft
