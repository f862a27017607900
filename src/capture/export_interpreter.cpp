// SPDX-License-Identifier: Apache-2.0
#include "capture/export_interpreter.h"

#include "base/error.h"
#include "base/text.h"
#include "capture/arguments.h"
#include "capture/export_arguments.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/utils/generated_serialization_types.h>

#include <optional>
#include <variant>

namespace weft {
namespace {

namespace schema = torch::_export;
using ArgumentTag = schema::Argument::Tag;

constexpr std::string_view kOperators = "torch.ops.";
constexpr std::string_view kRegions = "torch.ops.higher_order.";

std::string node_name(const schema::Node& node) {
  return node.get_name().value_or("");
}

// "torch.ops.aten.add.Tensor" is aten::add, overload Tensor.
c10::OperatorHandle find_operator(const schema::Node& node) {
  const std::string& target = node.get_target();
  std::optional<c10::OperatorHandle> found;
  if (target.starts_with(kOperators)) {
    const auto parts = split(target.substr(kOperators.size()), '.');
    if (parts.size() == 3) {
      found = c10::Dispatcher::singleton().findSchema(
          {cat(parts[0], "::", parts[1]),
           parts[2] == "default" ? std::string() : parts[2]});
    }
  }
  WEFT_CHECK_USER(
      found.has_value(),
      "[capture] this PyTorch has no operator ",
      target,
      " (node ",
      node_name(node),
      "). Was the model exported by another version, or does it use an "
      "operator of a library that is not loaded?");
  return *found;
}

// Sizes are known without running what computes them, and a node that neither
// gives nor changes anything only checks.
bool is_needed(const schema::Node& node) {
  for (const schema::Argument& output : node.get_outputs()) {
    const ArgumentTag tag = output.tag();
    if (tag != ArgumentTag::AS_SYM_INT && tag != ArgumentTag::AS_SYM_BOOL &&
        tag != ArgumentTag::AS_SYM_FLOAT) {
      return true;
    }
  }
  if (!node.get_outputs().empty() ||
      !node.get_target().starts_with(kOperators)) {
    return false;
  }
  return find_operator(node).schema().is_mutable();
}

// "a.slice(None, 2, None).0" is how export writes a[:2][0].
std::string clean_path(std::string path) {
  for (size_t at = path.find("slice("); at != std::string::npos;
       at = path.find("slice(")) {
    const size_t end = path.find(")", at);
    if (end == std::string::npos) {
      break;
    }
    path.erase(at, end + (end + 1 < path.size() ? 2 : 1) - at);
  }
  for (char& c : path) {
    if (!is_name_char(c) || c == '/') {
      c = '_';
    }
  }
  return path;
}

// The class without the Python modules that it lies in.
std::string unqualified_class(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::unordered_map<std::string, size_t> last_uses(const schema::Graph& graph) {
  std::unordered_map<std::string, size_t> last;
  const auto& nodes = graph.get_nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const schema::NamedArgument& input : nodes[i].get_inputs()) {
      for (const std::string& name : tensor_names(input.get_arg())) {
        last[name] = i;
      }
    }
  }
  for (const schema::Argument& output : graph.get_outputs()) {
    for (const std::string& name : tensor_names(output)) {
      last[name] = nodes.size();
    }
  }
  return last;
}

at::Tensor find_tensor(
    const std::unordered_map<std::string, at::Tensor>& tensors,
    const std::string& name) {
  const auto found = tensors.find(name);
  WEFT_CHECK_USER(
      found != tensors.end(),
      "[capture] damaged program: the tensor ",
      name,
      " is not defined");
  return found->second;
}

}  // namespace

std::vector<at::Tensor> ExportInterpreter::run(
    const schema::Graph& graph, const std::vector<at::Tensor>& inputs) {
  WEFT_CHECK_USER(
      inputs.size() == graph.get_inputs().size(),
      "[capture] damaged program: a graph of ",
      graph.get_inputs().size(),
      " inputs is called with ",
      inputs.size());
  const auto last = last_uses(graph);
  Tensors tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const std::string& name : tensor_names(graph.get_inputs()[i])) {
      tensors[name] = inputs[i];
    }
  }
  const auto& nodes = graph.get_nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (is_needed(nodes[i])) {
      std::vector<at::Tensor> results = call(nodes[i], graph, tensors);
      std::vector<std::string> names;
      for (const schema::Argument& output : nodes[i].get_outputs()) {
        for (std::string& name : tensor_names(output)) {
          names.push_back(std::move(name));
        }
      }
      WEFT_CHECK_USER(
          names.size() == results.size(),
          "[capture] damaged program: node ",
          node_name(nodes[i]),
          " has ",
          names.size(),
          " results, its operator ",
          results.size());
      for (size_t k = 0; k < names.size(); ++k) {
        if (last.contains(names[k])) {
          tensors[names[k]] = std::move(results[k]);
        }
      }
    }
    for (const schema::NamedArgument& input : nodes[i].get_inputs()) {
      for (const std::string& name : tensor_names(input.get_arg())) {
        if (last.at(name) == i) {
          tensors.erase(name);
        }
      }
    }
  }
  std::vector<at::Tensor> outputs;
  for (const schema::Argument& output : graph.get_outputs()) {
    for (const std::string& name : tensor_names(output)) {
      outputs.push_back(
          name.empty() ? at::Tensor() : find_tensor(tensors, name));
    }
  }
  return outputs;
}

std::vector<at::Tensor> ExportInterpreter::call(
    const schema::Node& node,
    const schema::Graph& graph,
    const Tensors& tensors) {
  const std::string path = enter_module(node);
  const auto where = [&] {
    return cat(
        "(node ",
        node_name(node),
        path.empty() ? "" : " in module ",
        path,
        ")");
  };
  try {
    const bool is_region = node.get_target().starts_with(kRegions);
    std::vector<at::Tensor> results = is_region
                                          ? call_region(node, tensors)
                                          : call_operator(node, graph, tensors);
    recorder_.pop_module();
    return results;
  } catch (const c10::Error& error) {
    throw UserError(
        cat("[capture] ",
            node.get_target(),
            " failed ",
            where(),
            ": ",
            error.what_without_backtrace()));
  } catch (const std::bad_variant_access&) {
    // A kind that a newer schema added.
    throw UserError(
        cat("[capture] not supported: an argument of ",
            node.get_target(),
            " of a kind that PyTorch 2.13 does not know ",
            where()));
  }
}

std::vector<at::Tensor> ExportInterpreter::call_operator(
    const schema::Node& node,
    const schema::Graph& graph,
    const Tensors& tensors) {
  const c10::OperatorHandle op = find_operator(node);
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  torch::jit::Stack stack;
  for (const c10::Argument& argument : declared) {
    stack.push_back(argument.default_value().value_or(c10::IValue()));
  }
  for (const schema::NamedArgument& input : node.get_inputs()) {
    const auto position = op.schema().argumentIndexWithName(input.get_name());
    WEFT_CHECK_USER(
        position.has_value(),
        "[capture] ",
        node.get_target(),
        " of this PyTorch has no argument ",
        input.get_name(),
        " (node ",
        node_name(node),
        ")");
    const auto at = static_cast<size_t>(*position);
    stack[at] = dispatcher_value(
        input.get_arg(), declared[at], graph, [&](const std::string& name) {
          return find_tensor(tensors, name);
        });
  }
  op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) {
    if (!value.isTensor() && !value.isList()) {
      results.emplace_back();
      continue;
    }
    for_each_tensor(
        value, [&](const at::Tensor& tensor) { results.push_back(tensor); });
  }
  return results;
}

std::vector<at::Tensor> ExportInterpreter::call_region(
    const schema::Node& node, const Tensors& tensors) {
  const std::string kind = node.get_target().substr(kRegions.size());
  const auto& arguments = node.get_inputs();
  size_t region = 0;
  while (region < arguments.size() &&
         arguments[region].get_arg().tag() != ArgumentTag::AS_GRAPH) {
    ++region;
  }
  const auto flag = [&](size_t i) {
    return i < region && arguments[i].get_arg().tag() == ArgumentTag::AS_BOOL &&
           arguments[i].get_arg().get_as_bool();
  };
  const bool sets_grad = kind == "wrap_with_set_grad_enabled";
  // (device, dtype, enabled, ...): one that is switched off changes nothing.
  const bool is_no_autocast = kind == "wrap_with_autocast" && !flag(2);
  WEFT_CHECK_USER(
      region < arguments.size() && (sets_grad || is_no_autocast),
      "[capture] not supported in an exported program: ",
      kind,
      " (node ",
      node_name(node),
      "). Capture the model from Python instead (FILE.py:FUNCTION)");
  std::vector<at::Tensor> inputs;
  for (size_t i = region + 1; i < arguments.size(); ++i) {
    for (const std::string& name : tensor_names(arguments[i].get_arg())) {
      inputs.push_back(
          name.empty() ? at::Tensor() : find_tensor(tensors, name));
    }
  }
  const c10::AutoGradMode mode(
      sets_grad ? flag(0) : c10::GradMode::is_enabled());
  return run(*arguments[region].get_arg().get_as_graph().get_graph(), inputs);
}

std::string ExportInterpreter::enter_module(const schema::Node& node) {
  std::string path;
  const auto found = node.get_metadata().find("nn_module_stack");
  if (found != node.get_metadata().end()) {
    // "key,path,class;key,path,class": the path may hold commas.
    for (const std::string& text : split(found->second, ';')) {
      const size_t first = text.find(',');
      const size_t last = text.rfind(',');
      if (first == last || text.starts_with("_empty_nn_module_stack")) {
        continue;
      }
      path = clean_path(text.substr(first + 1, last - first - 1));
      if (module_paths_.insert(path).second) {
        modules_.push_back({path, unqualified_class(text.substr(last + 1))});
      }
    }
  }
  recorder_.push_module(path);
  return path;
}

}  // namespace weft
