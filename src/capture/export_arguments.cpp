// SPDX-License-Identifier: Apache-2.0
#include "capture/export_arguments.h"

#include "base/error.h"
#include "capture/export_archive.h"
#include "capture/recorder.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/utils/generated_serialization_types.h>

namespace weft {
namespace {

namespace schema = torch::_export;
using ArgumentTag = schema::Argument::Tag;

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional ? *optional->getElementType() : type;
}

// Of a list; of anything else, the type itself.
const c10::Type& element_type(const c10::Type& type) {
  const auto* list = type.castRaw<c10::ListType>();
  return list ? *list->getElementType() : type;
}

// The same in C++'s enumerations as in the file's.
int64_t memory_format_value(schema::MemoryFormat format) {
  switch (format) {
    case schema::MemoryFormat::ContiguousFormat:
      return static_cast<int64_t>(at::MemoryFormat::Contiguous);
    case schema::MemoryFormat::ChannelsLast:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
    case schema::MemoryFormat::ChannelsLast3d:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
    case schema::MemoryFormat::PreserveFormat:
      return static_cast<int64_t>(at::MemoryFormat::Preserve);
    default:
      throw UserError("[capture] not supported: an unknown memory format");
  }
}

int64_t layout_value(schema::Layout layout) {
  WEFT_CHECK_USER(
      layout == schema::Layout::Strided,
      "[capture] not supported: a sparse tensor in an exported program");
  return static_cast<int64_t>(at::kStrided);
}

template <typename Map>
const auto& symbol(const Map& symbols, const std::string& name) {
  const auto found = symbols.find(name);
  WEFT_CHECK_USER(
      found != symbols.end(),
      "[capture] damaged program: the number ",
      name,
      " is not defined");
  return found->second;
}

int64_t number_of(
    const schema::SymIntArgument& argument, const schema::Graph& graph) {
  if (argument.tag() == schema::SymIntArgument::Tag::AS_INT) {
    return argument.get_as_int();
  }
  return size_of(symbol(graph.get_sym_int_values(), argument.get_as_name()));
}

double number_of(
    const schema::SymFloatArgument& argument, const schema::Graph& graph) {
  if (argument.tag() == schema::SymFloatArgument::Tag::AS_FLOAT) {
    return argument.get_as_float().get();
  }
  const schema::SymFloat& found =
      symbol(graph.get_sym_float_values(), argument.get_as_name());
  if (found.tag() == schema::SymFloat::Tag::AS_FLOAT) {
    return found.get_as_float().get();
  }
  const auto& hint = found.get_as_expr().get_hint();
  WEFT_CHECK_USER(
      hint && hint->tag() == schema::SymExprHint::Tag::AS_FLOAT,
      "[capture] a number depends on data: ",
      found.get_as_expr().get_expr_str());
  return hint->get_as_float().get();
}

// One number in the place that the schema has for it.
c10::IValue number_value(const at::Scalar& number, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType: {
      const RecordingPause pause;
      return at::native::wrapped_scalar_tensor(number);
    }
    case c10::TypeKind::FloatType:
      return number.toDouble();
    case c10::TypeKind::ListType: {
      c10::List<int64_t> list;
      list.push_back(number.toLong());
      return list;
    }
    default:
      return number;
  }
}

template <typename T, typename Items, typename Convert>
c10::IValue list_of(const Items& items, Convert&& convert) {
  c10::List<T> list;
  for (const auto& item : items) {
    list.push_back(convert(item));
  }
  return list;
}

c10::IValue numbers_value(
    const std::vector<at::Scalar>& numbers, const c10::Type& type) {
  switch (element_type(type).kind()) {
    case c10::TypeKind::FloatType:
      return list_of<double>(
          numbers, [](const at::Scalar& number) { return number.toDouble(); });
    case c10::TypeKind::NumberType:
      return list_of<at::Scalar>(
          numbers, [](const at::Scalar& number) { return number; });
    default:
      return list_of<int64_t>(
          numbers, [](const at::Scalar& number) { return number.toLong(); });
  }
}

template <typename Items, typename Convert>
std::vector<at::Scalar> scalars(const Items& items, Convert&& convert) {
  std::vector<at::Scalar> numbers;
  for (const auto& item : items) {
    numbers.emplace_back(convert(item));
  }
  return numbers;
}

// "" for none.
c10::IValue tensors_value(
    const std::vector<std::string>& names,
    const c10::Type& type,
    const TensorOf& tensor_of) {
  if (element_type(type).kind() == c10::TypeKind::OptionalType) {
    return list_of<std::optional<at::Tensor>>(
        names, [&](const std::string& name) {
          return name.empty() ? std::nullopt : std::optional(tensor_of(name));
        });
  }
  return list_of<at::Tensor>(names, tensor_of);
}

}  // namespace

c10::IValue dispatcher_value(
    const schema::Argument& argument,
    const c10::Argument& declared,
    const schema::Graph& graph,
    const TensorOf& tensor_of) {
  const c10::Type& type = without_optional(*declared.type());
  switch (argument.tag()) {
    case ArgumentTag::AS_NONE:
      // Throws when the kind is one that this schema does not have.
      (void)argument.get_as_none();
      return {};
    case ArgumentTag::AS_TENSOR:
      return tensor_of(argument.get_as_tensor().get_name());
    case ArgumentTag::AS_OPTIONAL_TENSOR: {
      const std::string name = tensor_names(argument).front();
      return name.empty() ? c10::IValue() : tensor_of(name);
    }
    case ArgumentTag::AS_TENSORS:
    case ArgumentTag::AS_OPTIONAL_TENSORS:
      return tensors_value(tensor_names(argument), type, tensor_of);
    case ArgumentTag::AS_INT:
      return number_value(argument.get_as_int(), type);
    case ArgumentTag::AS_FLOAT:
      return number_value(argument.get_as_float().get(), type);
    case ArgumentTag::AS_BOOL:
      return number_value(argument.get_as_bool(), type);
    case ArgumentTag::AS_SYM_INT:
      return number_value(number_of(argument.get_as_sym_int(), graph), type);
    case ArgumentTag::AS_SYM_FLOAT:
      return number_value(number_of(argument.get_as_sym_float(), graph), type);
    case ArgumentTag::AS_INTS:
      return numbers_value(
          scalars(argument.get_as_ints(), [](int64_t one) { return one; }),
          type);
    case ArgumentTag::AS_SYM_INTS:
      return numbers_value(
          scalars(
              argument.get_as_sym_ints(),
              [&](const schema::SymIntArgument& one) {
                return number_of(one, graph);
              }),
          type);
    case ArgumentTag::AS_FLOATS:
      return numbers_value(
          scalars(
              argument.get_as_floats(),
              [](const schema::F64& one) { return one.get(); }),
          type);
    case ArgumentTag::AS_BOOLS:
      return list_of<bool>(
          argument.get_as_bools(), [](bool one) { return one; });
    case ArgumentTag::AS_STRING:
      return argument.get_as_string();
    case ArgumentTag::AS_STRINGS:
      return list_of<std::string>(
          argument.get_as_strings(),
          [](const std::string& one) { return one; });
    case ArgumentTag::AS_COMPLEX:
      return c10::complex<double>(
          argument.get_as_complex().get_real().get(),
          argument.get_as_complex().get_imag().get());
    case ArgumentTag::AS_SCALAR_TYPE:
      return static_cast<int64_t>(exported_scalar_type(
          static_cast<int64_t>(argument.get_as_scalar_type())));
    case ArgumentTag::AS_MEMORY_FORMAT:
      return memory_format_value(argument.get_as_memory_format());
    case ArgumentTag::AS_LAYOUT:
      return layout_value(argument.get_as_layout());
    case ArgumentTag::AS_DEVICE:
      return at::Device(at::kCPU);
    default:
      throw UserError(
          cat("[capture] not supported: the argument ",
              declared.name(),
              " is neither a tensor, a number, a word nor a list of them"));
  }
}

std::vector<std::string> tensor_names(const schema::Argument& argument) {
  const auto optional_name = [](const schema::OptionalTensorArgument& one) {
    return one.tag() == schema::OptionalTensorArgument::Tag::AS_TENSOR
               ? one.get_as_tensor().get_name()
               : std::string();
  };
  std::vector<std::string> names;
  switch (argument.tag()) {
    case ArgumentTag::AS_TENSOR:
      return {argument.get_as_tensor().get_name()};
    case ArgumentTag::AS_OPTIONAL_TENSOR:
      return {optional_name(argument.get_as_optional_tensor())};
    case ArgumentTag::AS_TENSORS:
      for (const schema::TensorArgument& one : argument.get_as_tensors()) {
        names.push_back(one.get_name());
      }
      return names;
    case ArgumentTag::AS_OPTIONAL_TENSORS:
      for (const auto& one : argument.get_as_optional_tensors()) {
        names.push_back(optional_name(one));
      }
      return names;
    default:
      return {""};
  }
}

}  // namespace weft
