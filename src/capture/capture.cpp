// SPDX-License-Identifier: Apache-2.0
#include "capture/capture.h"

#include "aten/types.h"
#include "base/error.h"
#include "base/text.h"
#include "capture/constant_part.h"

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

// The same memory seen the same way: one tensor under two names.
struct Place {
  const c10::StorageImpl* storage;
  int64_t offset;
  TensorType type;
  bool is_conj;
  bool is_neg;
  bool operator==(const Place&) const = default;
};

Place place_of(const at::Tensor& tensor) {
  return {
      tensor.storage().unsafeGetStorageImpl(),
      tensor.storage_offset(),
      type_of(tensor),
      tensor.is_conj(),
      tensor.is_neg()};
}

}  // namespace

Capture::Capture(std::string name, RecordMode mode, const Capture* earlier)
    : name_(std::move(name)),
      recorder_(std::make_shared<Recorder>(
          mode,
          earlier == nullptr
              ? std::nullopt
              : std::optional(earlier->recorder_->script_generators()))) {
  recorder_->begin_function("init", Phase::Init);
}

bool Capture::has_lasting_generators() const {
  return recorder_->script_generators().has_lasting();
}

std::unique_ptr<Recording> Capture::record_init() {
  return std::make_unique<Recording>(recorder_);
}

std::unique_ptr<Recording> Capture::record_step() {
  return std::make_unique<Recording>(recorder_);
}

std::vector<Capture::Held> Capture::bind_all(
    const std::vector<NamedTensor>& tensors,
    InputKind kind,
    const std::optional<std::vector<NamedTensor>>& saved) {
  std::vector<Held> held;
  std::unordered_map<const c10::StorageImpl*, std::vector<size_t>> by_storage;
  for (const auto& [name, tensor] : tensors) {
    recorder_->check_kind(tensor);
    const Place place = place_of(tensor);
    bool tied = false;
    for (const size_t i : by_storage[place.storage]) {
      if (place_of(held[i].tensor) == place) {
        WEFT_CHECK_USER(
            kind != InputKind::Batch,
            "[capture] ",
            quote(held[i].names.front()),
            " and ",
            quote(name),
            " of the batch are one tensor: give one of them a clone()");
        held[i].names.push_back(name);
        tied = true;
      }
    }
    if (!tied) {
      by_storage[place.storage].push_back(held.size());
      held.push_back({{name}, tensor, ValueId::None});
    }
  }
  std::vector<std::vector<std::string>> names(held.size());
  for (const auto& [name, tensor] :
       saved.value_or(std::vector<NamedTensor>())) {
    if (!tensor.has_storage()) {
      continue;
    }
    const Place place = place_of(tensor);
    for (const size_t i : by_storage[place.storage]) {
      if (place_of(held[i].tensor) == place) {
        names[i].push_back(name);
      }
    }
  }
  for (size_t i = 0; i < held.size(); ++i) {
    Held& one = held[i];
    Input input = {
        .kind = kind,
        .keys = one.names,
        .trained = kind == InputKind::Parameter && one.tensor.requires_grad()};
    if (saved && !std::is_permutation(
                     names[i].begin(),
                     names[i].end(),
                     one.names.begin(),
                     one.names.end())) {
      input.saved = names[i];
    }
    one.value = recorder_->bind_input(one.tensor, std::move(input));
  }
  return held;
}

void Capture::begin_step(
    const std::vector<NamedTensor>& parameters,
    const std::vector<NamedTensor>& buffers,
    const std::vector<NamedTensor>& batch,
    const std::optional<std::vector<NamedTensor>>& saved) {
  recorder_->begin_function("step", Phase::Forward);
  batch_ = bind_all(batch, InputKind::Batch, std::nullopt);
  parameters_ = bind_all(parameters, InputKind::Parameter, saved);
  buffers_ = bind_all(buffers, InputKind::Buffer, saved);
  // What the recording of `init` made of them, before the step changes them.
  return_init(parameters_, OutputKind::Parameter);
  return_init(buffers_, OutputKind::Buffer);
}

void Capture::return_init(const std::vector<Held>& held, OutputKind kind) {
  for (const Held& one : held) {
    if (const auto value = recorder_->value_before(one.tensor)) {
      recorder_->function_before().outputs.push_back(
          {kind, one.names.front(), *value});
    }
  }
}

void Capture::begin_backward() { recorder_->set_phase(Phase::Backward); }

void Capture::replace_buffer(const std::string& name, const at::Tensor& now) {
  for (Held& buffer : buffers_) {
    for (const std::string& one : buffer.names) {
      if (one == name) {
        buffer.tensor = now;
        return;
      }
    }
  }
  throw UserError(
      cat("[capture] the step changes a buffer that the model does not have: ",
          name));
}

Capture::Left Capture::left(const at::Tensor& tensor) {
  Left left;
  const std::optional<ValueId> value = recorder_->value_if_any(tensor);
  const Function& step = recorder_->function();
  if (!value || step[*value].node == NodeId::None) {
    return left;
  }
  left.is_made = true;
  left.again = constant_part(step, *value, [this](const Input& input) {
    return known_tensor(input).defined();
  });
  if (left.again) {
    for (const Input& input : left.again->inputs) {
      left.known.push_back(known_tensor(input));
    }
  }
  return left;
}

bool Capture::is_constant(const at::Tensor& tensor) const {
  const std::optional<ValueId> value = recorder_->value_if_any(tensor);
  const std::vector<Input>& inputs = recorder_->function().inputs;
  return value &&
         std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
           return input.value == *value && input.kind == InputKind::Constant;
         });
}

at::Tensor Capture::known_tensor(const Input& input) const {
  if (input.kind == InputKind::Constant) {
    return recorder_->constant(input.keys.front());
  }
  if (input.kind != InputKind::Buffer) {
    return {};
  }
  for (const Held& buffer : buffers_) {
    if (buffer.names.front() == input.keys.front()) {
      // What follows from a buffer that each step changes is another in each.
      const bool is_kept =
          recorder_->value_if_any(buffer.tensor) == buffer.value;
      return is_kept && !is_hollow(buffer.tensor) ? buffer.tensor
                                                  : at::Tensor();
    }
  }
  return {};
}

void Capture::find_written_batch() {
  for (const Held& held : batch_) {
    const ValueId now = recorder_->value_of(held.tensor);
    if (now == held.value) {
      continue;
    }
    WrittenBatch written;
    written.name = held.names.front();
    written.again =
        constant_part(recorder_->function(), now, [](const Input& input) {
          return input.kind == InputKind::Constant ||
                 input.kind == InputKind::Batch;
        });
    if (written.again) {
      for (const Input& input : written.again->inputs) {
        const std::string& key = input.keys.front();
        const bool is_constant = input.kind == InputKind::Constant;
        written.inputs.emplace_back(
            is_constant ? "" : key,
            is_constant ? recorder_->constant(key) : at::Tensor());
        if (is_constant && !written.inputs.back().second.defined()) {
          // The step has written into this one as well.
          written.again.reset();
          break;
        }
      }
    }
    written_.push_back(std::move(written));
  }
  batch_.clear();
}

Graph Capture::finish(
    const at::Tensor& loss,
    const std::optional<OptimizerDescription>& optimizer,
    std::vector<Module> modules) {
  WEFT_CHECK_USER(
      loss.defined() && loss.numel() == 1,
      "[capture] the loss must be one number; the model returned a tensor of ",
      loss.defined() ? print(type_of(loss)) : std::string("nothing"),
      ". Reduce it (.mean() or .sum())");
  recorder_->verify_writes();
  find_written_batch();
  std::vector<Output> outputs = {
      {OutputKind::Loss, "", recorder_->value_of(loss)}};
  for (const Held& parameter : parameters_) {
    WEFT_CHECK_USER(
        recorder_->value_of(parameter.tensor) == parameter.value,
        "[capture] the step itself writes into the parameter ",
        quote(parameter.names.front()),
        ", which only the optimizer may. Compute with a changed copy instead "
        "(weight = self.weight.clamp(...)), or change the parameter between "
        "two steps, under torch.no_grad()");
    const at::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined()) {
      outputs.push_back(
          {OutputKind::Gradient,
           parameter.names.front(),
           recorder_->value_of(gradient)});
    }
  }
  for (const Held& buffer : buffers_) {
    const ValueId now = recorder_->value_of(buffer.tensor);
    if (now != buffer.value) {
      outputs.push_back({OutputKind::Buffer, buffer.names.front(), now});
    }
  }
  Graph graph;
  graph.name = name_;
  graph.modules = std::move(modules);
  graph.constants = recorder_->take_constants();
  Function init = std::move(recorder_->function_before());
  Function step = std::move(recorder_->function());
  recorder_->close();
  step.outputs = std::move(outputs);
  if (optimizer) {
    add_optimizer(step, recorder_->names(), *optimizer);
    add_learning_rates(graph, *optimizer);
  }
  renumber(step);
  if (!init.outputs.empty()) {
    drop_unused_nodes(init);
    graph.functions.push_back(std::move(init));
  }
  graph.functions.push_back(std::move(step));
  parameters_.clear();
  buffers_.clear();
  return graph;
}

void drop_unused_nodes(Function& function) {
  std::vector<bool> used(function.values.size(), false);
  for (const Output& output : function.outputs) {
    used[index(output.value)] = true;
  }
  std::vector<bool> kept(function.nodes.size(), false);
  bool any_kept = false;
  for (size_t i = function.nodes.size(); i-- > 0;) {
    const Node& node = function.nodes[i];
    for (const ValueId result : node.results) {
      kept[i] = kept[i] || used[index(result)];
    }
    // Numbers are drawn from one stream: without the draws in between, those
    // that follow would be others than eager PyTorch's.
    kept[i] = kept[i] || (any_kept && find_option(node, kRngOption));
    any_kept = any_kept || kept[i];
    if (kept[i]) {
      for_each_operand(node, [&](ValueId id) { used[index(id)] = true; });
    }
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    if (kept[i]) {
      nodes.push_back(std::move(function.nodes[i]));
      nodes.back().releases.clear();
    }
  }
  function.nodes = std::move(nodes);
  std::erase_if(function.inputs, [&](const Input& input) {
    return !used[index(input.value)];
  });
  renumber(function);
}

}  // namespace weft
