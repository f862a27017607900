// SPDX-License-Identifier: Apache-2.0
#include "capture/torch_module.h"

#include "aten/types.h"
#include "base/error.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

// "torch::nn::LinearImpl" -> "Linear".
std::string short_class(std::string name) {
  const size_t scope = name.rfind("::");
  if (scope != std::string::npos) {
    name.erase(0, scope + 2);
  }
  constexpr std::string_view kSuffix = "Impl";
  if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) {
    name.resize(name.size() - kSuffix.size());
  }
  return name;
}

// "a.b.weight" -> "a.b".
std::string parent(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::vector<NamedTensor> named(
    const torch::OrderedDict<std::string, at::Tensor>& dict) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : dict) {
    if (item.value().defined()) {
      tensors.push_back({item.key(), item.value()});
    }
  }
  return tensors;
}

// Finds the module of a node; see the top of torch_module.h.
class OwnerPaths {
 public:
  std::string operator()(const Function& function, const Node& node) {
    const std::vector<ValueId> read = operands(node);
    for (const ValueId id : read) {
      if (const auto owner = owner_of(function, id)) {
        return *owner;
      }
    }
    ValueId newest = ValueId::None;
    for (const ValueId id : read) {
      if (function[id].node != NodeId::None) {
        newest = std::max(newest, id);
      }
    }
    if (newest == ValueId::None) {
      return "";
    }
    std::string path(module_path(function[newest].name));
    const Node& maker = function.nodes[index(function[newest].node)];
    return reads_owned(function, maker) ? parent(path) : path;
  }

 private:
  bool reads_owned(const Function& function, const Node& node) {
    const std::vector<ValueId> read = operands(node);
    return std::any_of(read.begin(), read.end(), [&](ValueId id) {
      return owner_of(function, id).has_value();
    });
  }

  // The module of a parameter or a buffer, or of what is made from one alone
  // (its transpose, a copy in another type); nothing for all else.
  std::optional<std::string> owner_of(const Function& function, ValueId id) {
    if (owned_inputs_.empty()) {
      for (const Input& input : function.inputs) {
        if (input.kind == InputKind::Parameter ||
            input.kind == InputKind::Buffer) {
          owned_inputs_[input.value] = parent(input.keys.front());
        }
      }
    }
    const NodeId maker = function[id].node;
    if (maker == NodeId::None) {
      const auto found = owned_inputs_.find(id);
      return found == owned_inputs_.end() ? std::nullopt
                                          : std::optional(found->second);
    }
    const std::vector<ValueId> read = operands(function.nodes[index(maker)]);
    return read.size() == 1 ? owner_of(function, read.front()) : std::nullopt;
  }

  std::unordered_map<ValueId, std::string> owned_inputs_;
};

Graph record(
    Capture& capture,
    const std::function<ModuleStep()>& build,
    const std::optional<OptimizerDescription>& optimizer) {
  ModuleStep step;
  {
    const auto recording = capture.record_init();
    step = build();
  }
  WEFT_CHECK_USER(
      step.module && step.loss,
      "[capture] the step must have a module and a loss");
  capture.begin_step(
      named(step.module->named_parameters()),
      named(step.module->named_buffers()),
      step.batch);
  capture.recorder().set_path_rule(OwnerPaths());
  at::Tensor loss;
  {
    const auto recording = capture.record_step();
    const c10::AutoGradMode with_grad(true);
    loss = step.loss();
    WEFT_CHECK_USER(
        loss.defined() && loss.numel() == 1,
        "[capture] the loss must be one number; it is ",
        loss.defined() ? print(type_of(loss)) : std::string("undefined"),
        ". Reduce it with .mean() or .sum()");
    WEFT_CHECK_USER(
        loss.requires_grad(),
        "[capture] the loss does not depend on any parameter that requires a "
        "gradient");
    capture.begin_backward();
    torch::autograd::backward({loss}, {});
  }
  std::vector<Module> modules;
  for (const auto& item : step.module->named_modules()) {
    modules.push_back({item.key(), short_class(item.value()->name())});
  }
  return capture.finish(loss, optimizer, std::move(modules));
}

bool needs_values(Capture& capture, const std::exception& error) {
  if (const auto& refusal = capture.recorder().refusal()) {
    return refusal->needs_values;
  }
  // The code asked a tensor without memory for its address.
  return std::string_view(error.what()).find("weft: no data") !=
         std::string_view::npos;
}

}  // namespace

Graph capture_module(
    const std::string& name,
    const std::function<ModuleStep()>& build,
    const std::optional<OptimizerDescription>& optimizer) {
  Capture hollow(name, RecordMode::Hollow);
  try {
    return record(hollow, build, optimizer);
  } catch (const std::exception& error) {
    if (!needs_values(hollow, error)) {
      throw;
    }
  }
  Capture real(name, RecordMode::Real);
  return record(real, build, optimizer);
}

}  // namespace weft
