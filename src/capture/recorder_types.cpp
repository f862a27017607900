// SPDX-License-Identifier: Apache-2.0
// What results a call would have, without running it.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/recorder.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace weft {
namespace {

void append_bytes(std::string& key, const void* data, size_t size) {
  key.append(static_cast<const char*>(data), size);
}

void append_arg(std::string& key, const Function& function, const Arg& arg) {
  key.push_back(static_cast<char>(arg.data.index()));
  if (const auto* id = std::get_if<ValueId>(&arg.data)) {
    const TensorType& type = function[*id].type;
    key.push_back(static_cast<char>(type.dtype));
    for (const Dims* dims : {&type.sizes, &type.strides}) {
      key.push_back(static_cast<char>(dims->size()));
      append_bytes(key, dims->data(), dims->size() * sizeof(int64_t));
    }
  } else if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
    key.push_back(static_cast<char>(list->size()));
    for (const Arg& item : *list) {
      append_arg(key, function, item);
    }
  } else if (const auto* integer = std::get_if<int64_t>(&arg.data)) {
    append_bytes(key, integer, sizeof(*integer));
  } else if (const auto* number = std::get_if<double>(&arg.data)) {
    append_bytes(key, number, sizeof(*number));
  } else if (const auto* truth = std::get_if<bool>(&arg.data)) {
    key.push_back(*truth ? 1 : 0);
  } else if (const auto* dtype = std::get_if<DType>(&arg.data)) {
    key.push_back(static_cast<char>(*dtype));
  } else if (const auto* symbol = std::get_if<Symbol>(&arg.data)) {
    key += symbol->text;
  } else if (const auto* text = std::get_if<std::string>(&arg.data)) {
    key += *text;
  }
}

// Equal for calls whose results have equal types.
std::string call_key(const Function& function, const Node& node) {
  std::string key = node.op;
  for (const Arg& arg : node.args) {
    append_arg(key, function, arg);
  }
  for (const Option& option : node.options) {
    key += option.name;
    append_arg(key, function, option.value);
  }
  return key;
}

// Which results a backward op was asked for; empty when it has no such mask.
std::vector<bool> output_mask(
    const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isBoolList() &&
        schema.arguments()[i].name().find("output_mask") != std::string::npos) {
      std::vector<bool> mask;
      for (const bool asked : arguments[i].toBoolList()) {
        mask.push_back(asked);
      }
      return mask;
    }
  }
  return {};
}

}  // namespace

bool Recorder::has_known_types(const OpInfo& info, const Node& node) const {
  return info.def && info.def->types &&
         !info.def->types(now_.function, node).empty();
}

std::vector<TensorType> Recorder::types_by_entry(
    const OpInfo& info, const Node& node) {
  if (!info.def || !info.def->types) {
    return {};
  }
  std::string key = call_key(now_.function, node);
  const auto known = types_of_call_.find(key);
  if (known != types_of_call_.end()) {
    return known->second;
  }
  const size_t values = now_.function.values.size();
  std::vector<TensorType> types;
  try {
    types = info.def->types(now_.function, node);
    // That the operands fit each other is what the rule says; where they do
    // not, PyTorch is asked, and has the words for it.
    Node trial = node;
    for (const TensorType& type : types) {
      trial.results.push_back(add_value(now_.function, "", type));
    }
    rule_of(now_.function, trial);
  } catch (const std::exception&) {
    types.clear();
  }
  now_.function.values.resize(values);
  types_of_call_.emplace(std::move(key), types);
  return types;
}

std::vector<c10::IValue> Recorder::infer(
    const OpInfo& info,
    const Node& node,
    c10::ArrayRef<c10::IValue> arguments) {
  const c10::FunctionSchema& schema = info.functional.schema();
  const std::vector<TensorType> types = types_by_entry(info, node);
  if (!types.empty()) {
    const std::vector<bool> mask = output_mask(schema, arguments);
    std::vector<at::Tensor> tensors;
    for (size_t i = 0; i < types.size(); ++i) {
      tensors.push_back(
          i < mask.size() && !mask[i]
              ? at::Tensor()
              : make_hollow(types[i], weak_from_this()));
    }
    if (schema.returns().size() == 1 &&
        schema.returns().front().type()->kind() == c10::TypeKind::ListType) {
      return {c10::IValue(std::move(tensors))};
    }
    return {tensors.begin(), tensors.end()};
  }
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments.slice(
           0, std::min(arguments.size(), schema.arguments().size()))) {
    if (argument.isDevice()) {
      stack.emplace_back(at::Device(at::kMeta));
      continue;
    }
    stack.push_back(map_tensors(argument, to_meta));
  }
  try {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    info.functional.redispatchBoxed(
        c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const c10::Error& error) {
    return infer_by_running(info, arguments, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return infer_by_running(info, arguments, error.what());
  }
  for (c10::IValue& result : stack) {
    result = map_tensors(result, [this](const at::Tensor& meta) {
      check_layout(meta);
      return meta.defined() ? make_hollow(type_of(meta), weak_from_this())
                            : meta;
    });
  }
  return stack;
}

std::vector<c10::IValue> Recorder::infer_by_running(
    const OpInfo& info,
    c10::ArrayRef<c10::IValue> arguments,
    const std::string& why) {
  if (mode_ == RecordMode::Hollow || info.random) {
    // What shape kernels refuse, kernels may run. Where they do not either,
    // the error that the step ends with is theirs.
    refuse(
        mode_ == RecordMode::Hollow,
        cat("[capture] ",
            info.name,
            in_module(),
            ": neither Weft's op table nor PyTorch gives the shape of its "
            "result without running it (",
            why.substr(0, why.find('\n')),
            ")"));
  }
  torch::jit::Stack stack(arguments.begin(), arguments.end());
  stack.resize(info.functional.schema().arguments().size());
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  info.functional.callBoxed(&stack);
  return stack;
}

}  // namespace weft
