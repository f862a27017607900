// SPDX-License-Identifier: Apache-2.0
#include "capture/op_info.h"

#include "base/error.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

namespace weft {
namespace {

// "aten::add.Tensor" -> "aten.add.Tensor".
std::string graph_name(const c10::OperatorName& name) {
  std::string text = name.name;
  const size_t colons = text.find("::");
  if (colons != std::string::npos) {
    text.replace(colons, 2, ".");
  }
  if (!name.overload_name.empty()) {
    text += "." + name.overload_name;
  }
  return text;
}

std::string stem_of(const c10::OperatorName& name) {
  const size_t colons = name.name.find("::");
  std::string stem =
      colons == std::string::npos ? name.name : name.name.substr(colons + 2);
  const size_t first = stem.find_first_not_of('_');
  return first == std::string::npos ? stem : stem.substr(first);
}

bool holds_tensor(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) {
    return true;
  }
  if (type->kind() == c10::TypeKind::OptionalType ||
      type->kind() == c10::TypeKind::ListType) {
    return holds_tensor(type->containedType(0));
  }
  return false;
}

ArgForm form_of(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) {
    type = type->containedType(0);
  }
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return ArgForm::DType;
    case c10::TypeKind::MemoryFormatType:
      return ArgForm::MemoryFormat;
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::StreamObjType:
      return ArgForm::Dropped;
    default:
      break;
  }
  return argument.name() == "pin_memory" || argument.name() == "non_blocking"
             ? ArgForm::Dropped
             : ArgForm::Plain;
}

// Of the value, where there is one.
c10::TypeKind kind_of(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType
             ? type->containedType(0)->kind()
             : type->kind();
}

// Whether both take arguments of the same types, as far as both have some.
bool takes_alike(const c10::OperatorHandle& a, const c10::OperatorHandle& b) {
  const auto& ours = a.schema().arguments();
  const auto& theirs = b.schema().arguments();
  for (size_t i = 0; i < ours.size() && i < theirs.size(); ++i) {
    if (kind_of(ours[i].type()) != kind_of(theirs[i].type())) {
      return false;
    }
  }
  return true;
}

// PyTorch's functional twin of an operator that changes its arguments. Its
// name is the same without the underscore, but for a few whose twin the code
// generator had to call otherwise.
std::optional<c10::OperatorHandle> functional_twin(
    const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  std::vector<c10::OperatorName> candidates;
  if (name.name == "aten::_index_put_impl_") {
    candidates = {{"aten::index_put", ""}};
  } else if (name.name.back() == '_') {
    const std::string stem = name.name.substr(0, name.name.size() - 1);
    candidates = {
        {stem, name.overload_name},
        {stem, name.overload_name == "float" ? "p" : name.overload_name},
        {stem, "Tensor_" + name.overload_name},
        {stem + "_functional", name.overload_name}};
  } else if (name.name == "aten::native_batch_norm") {
    candidates = {{"aten::_native_batch_norm_legit_functional", ""}};
  } else {
    candidates = {{name.name + "_functional", name.overload_name}};
  }
  for (const c10::OperatorName& candidate : candidates) {
    auto found = c10::Dispatcher::singleton().findSchema(candidate);
    if (found && takes_alike(*found, op)) {
      return found;
    }
  }
  // transpose_ has its twin in transpose.int.
  for (const c10::OperatorName& candidate :
       c10::Dispatcher::singleton().getAllOpNames()) {
    if (candidate.name + "_" == name.name) {
      auto found = c10::Dispatcher::singleton().findSchema(candidate);
      if (found && !found->schema().is_mutable() && takes_alike(*found, op)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

// Whether the argument says of which type a new tensor is.
bool is_of_type(const c10::Argument& argument) {
  return argument.name() == "dtype" || argument.name() == "layout" ||
         argument.name() == "device" || argument.name() == "pin_memory";
}

// The operator of the same name that takes the same arguments but for `out`.
std::optional<c10::OperatorHandle> form_without_out(
    const c10::OperatorHandle& op, size_t out_count) {
  const auto& with_out = op.schema().arguments();
  for (const c10::OperatorName& name :
       c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != op.operator_name().name) {
      continue;
    }
    const auto found = c10::Dispatcher::singleton().findSchema(name);
    if (!found || found->schema().is_mutable() ||
        found->schema().returns().size() != out_count) {
      continue;
    }
    // What makes a tensor of nothing takes its type as well: that of `out`.
    std::vector<c10::Argument> plain;
    std::copy_if(
        found->schema().arguments().begin(),
        found->schema().arguments().end(),
        std::back_inserter(plain),
        [](const c10::Argument& argument) { return !is_of_type(argument); });
    const std::vector<c10::Argument> given(
        with_out.begin(), with_out.end() - static_cast<ptrdiff_t>(out_count));
    const auto is_alike = [](const c10::Argument& a, const c10::Argument& b) {
      return a.name() == b.name() && *a.type() == *b.type();
    };
    if (std::equal(
            plain.begin(), plain.end(), given.begin(), given.end(), is_alike)) {
      return found;
    }
  }
  return std::nullopt;
}

// Whether the arguments that the operator changes are the `out` that it fills.
bool fills_out(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  bool any = false;
  bool all = true;
  for (const c10::Argument& argument : arguments) {
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      any = true;
      all = all && argument.is_out();
    }
  }
  return any && all;
}

OpInfo make_info(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = op.operator_name().name;
  OpInfo info(op);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      info.mutated.push_back(i);
    }
    info.has_tensor_argument |= holds_tensor(argument.type());
    if (argument.name() == "sparse" &&
        argument.type()->kind() == c10::TypeKind::BoolType) {
      info.sparse_argument = static_cast<int>(i);
    }
  }
  bool tensor_result = false;
  bool view_result = false;
  for (const c10::Argument& result : schema.returns()) {
    tensor_result |= holds_tensor(result.type());
    view_result |= result.alias_info() && !result.alias_info()->isWrite();
  }
  // Its schema does not say that it updates the running statistics.
  if (name == "aten::native_batch_norm") {
    info.mutated = {3, 4};
  }
  info.is_worked_out = name == "aten::_conj" || name == "aten::_neg_view" ||
                       name == "aten::as_strided" ||
                       name == "aten::as_strided_";
  // Zeros without memory are zeros.
  if (name == "aten::_efficientzerotensor") {
    info.functional =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::zeros", "");
  }
  // A view with its strides worked out beforehand.
  if (name == "aten::_reshape_alias") {
    info.functional =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::view", "");
  }
  const bool in_place_view = op.hasTag(at::Tag::inplace_view);
  if (!info.mutated.empty() && !in_place_view) {
    const bool is_out = fills_out(schema);
    info.kind = is_out ? CallKind::Out : CallKind::Mutation;
    info.returns_mutated = name.back() == '_';
    auto twin = is_out ? form_without_out(op, info.mutated.size())
                       : functional_twin(op);
    WEFT_CHECK_USER(
        twin.has_value(),
        "[capture] ",
        graph_name(op.operator_name()),
        " writes into a tensor that is given to it, and has no form that "
        "returns the result instead: write the call without `out=`");
    info.functional = *twin;
  }
  info.name = graph_name(info.functional.operator_name());
  info.stem = stem_of(info.functional.operator_name());
  if (in_place_view) {
    // t_() and the like change only the shape of the tensor itself.
    info.kind = CallKind::View;
    auto twin = functional_twin(op);
    if (twin) {
      info.functional = *twin;
      info.name = graph_name(twin->operator_name());
      info.stem = stem_of(twin->operator_name());
    }
  }
  info.def = find_op(info.name);
  info.random = op.hasTag(at::Tag::nondeterministic_seeded) ||
                (info.def && info.def->kind == OpKind::Random);
  for (const c10::Argument& argument : info.functional.schema().arguments()) {
    info.forms.push_back(form_of(argument));
  }
  if (info.kind != CallKind::Compute) {
    return info;
  }
  if (!tensor_result) {
    const bool reads =
        info.name == "aten._local_scalar_dense" || info.name == "aten.equal" ||
        info.name == "aten.is_nonzero" || info.name == "aten.allclose";
    info.kind = reads ? CallKind::ValueRead : CallKind::Query;
  } else if (
      op.hasTag(at::Tag::dynamic_output_shape) &&
      info.name != "aten.index.Tensor" && info.name != "aten._ctc_loss") {
    // index depends on data only with a boolean index: the recorder looks; and
    // _ctc_loss on lengths that are given as numbers.
    info.kind = CallKind::DataDependent;
  } else if (view_result || (info.def && info.def->kind == OpKind::View)) {
    info.kind = CallKind::View;
  } else if (info.def && info.def->kind == OpKind::DataDependent) {
    info.kind = CallKind::DataDependent;
  } else if (
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    // Some, as silu_backward, are made of others only where a device has no
    // kernel of its own.
    info.kind = CallKind::Composite;
  }
  return info;
}

}  // namespace

const OpInfo& info_of(const c10::OperatorHandle& op) {
  // Schemas live as long as the dispatcher; capture runs on one thread at a
  // time (the interpreter's or the caller's).
  static thread_local std::
      unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>>
          cache;
  std::unique_ptr<OpInfo>& slot = cache[&op.schema()];
  if (!slot) {
    slot = std::make_unique<OpInfo>(make_info(op));
  }
  return *slot;
}

}  // namespace weft
