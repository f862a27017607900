// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_export.h"

#include "aten/types.h"
#include "base/error.h"
#include "capture/capture.h"
#include "capture/export_archive.h"
#include "capture/export_interpreter.h"
#include "capture/hollow.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/utils/generated_serialization_types.h>

#include <map>
#include <stdexcept>
#include <variant>

namespace weft {
namespace {

namespace schema = torch::_export;

// "runs/gpt.pt2" -> "gpt".
std::string name_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.rfind('.'));
  for (char& c : name) {
    if (!is_name_char(c) || c == '/') {
      c = '_';
    }
  }
  return name.empty() ? "model" : name;
}

// What the root module was called with.
const schema::ModuleCallSignature* root_signature(
    const schema::GraphModule& module) {
  for (const schema::ModuleCallEntry& entry : module.get_module_call_graph()) {
    if (entry.get_fqn().empty() && entry.get_signature()) {
      return &*entry.get_signature();
    }
  }
  return nullptr;
}

// The tensors that the forward graph starts from, without values but for the
// constants.
class Inputs {
 public:
  Inputs(const ExportArchive& archive, Recorder& recorder)
      : archive_(archive),
        recorder_(recorder),
        graph_(archive.program().get_graph_module().get_graph()) {
    const schema::GraphModule& module = archive.program().get_graph_module();
    if (const auto* root = root_signature(module)) {
      batch_paths_ = input_paths(root->get_in_spec());
    }
    for (const auto& spec : module.get_signature().get_input_specs()) {
      add(spec);
    }
  }

  // In the order of the graph's inputs.
  std::vector<at::Tensor> all;
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  // Those of them that the model's state_dict has.
  std::vector<NamedTensor> saved;
  std::vector<NamedTensor> batch;

 private:
  void add(const schema::InputSpec& spec);
  void add_batch(const schema::Argument& argument);
  const schema::TensorMeta& meta_of(const std::string& tensor) const;
  at::Tensor make(const std::string& tensor) const;
  // One tensor for all names of a tied parameter.
  at::Tensor make_weight(const std::string& tensor, const std::string& name);

  const ExportArchive& archive_;
  Recorder& recorder_;
  const schema::Graph& graph_;
  std::vector<std::string> batch_paths_;
  // How many leaves of the batch have been passed.
  size_t leaves_ = 0;
  std::map<std::string, at::Tensor> by_identity_;
};

const schema::TensorMeta& Inputs::meta_of(const std::string& tensor) const {
  const auto found = graph_.get_tensor_values().find(tensor);
  WEFT_CHECK_USER(
      found != graph_.get_tensor_values().end(),
      "[capture] damaged program: the type of ",
      tensor,
      " is missing");
  return found->second;
}

at::Tensor Inputs::make(const std::string& tensor) const {
  return make_hollow(type_of(meta_of(tensor)), recorder_.weak_from_this());
}

at::Tensor Inputs::make_weight(
    const std::string& tensor, const std::string& name) {
  const std::string identity = archive_.weight_identity(name);
  if (identity.empty()) {
    return make(tensor);
  }
  at::Tensor& made = by_identity_[identity];
  if (!made.defined()) {
    made = make(tensor);
  }
  return made;
}

void Inputs::add_batch(const schema::Argument& argument) {
  const size_t leaf = leaves_++;
  if (argument.tag() != schema::Argument::Tag::AS_TENSOR) {
    // A number or None: it is written into the program.
    all.emplace_back();
    return;
  }
  const std::string& name = argument.get_as_tensor().get_name();
  all.push_back(make(name));
  batch.push_back(
      {leaf < batch_paths_.size() ? batch_paths_[leaf] : name, all.back()});
}

void Inputs::add(const schema::InputSpec& spec) {
  using Tag = schema::InputSpec::Tag;
  switch (spec.tag()) {
    case Tag::PARAMETER: {
      const std::string& tensor = spec.get_parameter().get_arg().get_name();
      const std::string& name = spec.get_parameter().get_parameter_name();
      all.push_back(make_weight(tensor, name));
      all.back().set_requires_grad(meta_of(tensor).get_requires_grad());
      parameters.push_back({name, all.back()});
      saved.push_back(parameters.back());
      return;
    }
    case Tag::BUFFER: {
      const std::string& name = spec.get_buffer().get_buffer_name();
      all.push_back(make_weight(spec.get_buffer().get_arg().get_name(), name));
      buffers.push_back({name, all.back()});
      if (spec.get_buffer().get_persistent()) {
        saved.push_back(buffers.back());
      }
      return;
    }
    case Tag::TENSOR_CONSTANT:
      all.push_back(archive_.constant(
          spec.get_tensor_constant().get_tensor_constant_name()));
      return;
    case Tag::USER_INPUT:
      add_batch(spec.get_user_input().get_arg());
      return;
    case Tag::CONSTANT_INPUT:
      ++leaves_;
      all.emplace_back();
      return;
    case Tag::CUSTOM_OBJ:
      throw UserError(
          cat("[capture] not supported in an exported program: the script "
              "object ",
              spec.get_custom_obj().get_custom_obj_name()));
    case Tag::TOKEN:
      throw UserError(
          "[capture] not supported in an exported program: effect tokens");
  }
}

// What to do with each output of the forward graph; gives the loss.
at::Tensor take_outputs(
    const schema::GraphModule& module,
    const std::vector<at::Tensor>& outputs,
    Capture& capture) {
  using Tag = schema::OutputSpec::Tag;
  const auto& specs = module.get_signature().get_output_specs();
  WEFT_CHECK_USER(
      specs.size() == outputs.size(),
      "[capture] damaged program: ",
      outputs.size(),
      " outputs with ",
      specs.size(),
      " descriptions");
  std::vector<std::string> paths;
  if (const auto* root = root_signature(module)) {
    paths = output_paths(root->get_out_spec());
  }
  std::vector<at::Tensor> returned;
  at::Tensor loss;
  for (size_t i = 0; i < specs.size(); ++i) {
    switch (specs[i].tag()) {
      case Tag::USER_OUTPUT:
        if (returned.size() < paths.size() &&
            paths[returned.size()] == "loss") {
          loss = outputs[i];
        }
        returned.push_back(outputs[i]);
        break;
      case Tag::BUFFER_MUTATION:
        capture.replace_buffer(
            specs[i].get_buffer_mutation().get_buffer_name(), outputs[i]);
        break;
      case Tag::USER_INPUT_MUTATION:
        break;  // Nothing reads the batch after the step.
      case Tag::PARAMETER_MUTATION:
        throw UserError(
            cat("[capture] the forward pass changes the parameter ",
                specs[i].get_parameter_mutation().get_parameter_name(),
                "; that is the optimizer's work"));
      case Tag::LOSS_OUTPUT:
      case Tag::GRADIENT_TO_PARAMETER:
      case Tag::GRADIENT_TO_USER_INPUT:
      case Tag::TOKEN:
        throw UserError(
            "[capture] not supported: an exported program that has its "
            "backward pass in it; export the forward pass alone");
    }
  }
  if (!loss.defined() && !returned.empty()) {
    loss = returned.front();
  }
  WEFT_CHECK_USER(
      loss.defined(),
      "[capture] the exported model must return the loss, or a tuple that "
      "starts with it");
  return loss;
}

void check_loss(const at::Tensor& loss) {
  WEFT_CHECK_USER(
      loss.numel() == 1,
      "[capture] the loss must be one number; the exported model returns a "
      "tensor of ",
      print(type_of(loss)),
      " first. Export a model that returns the loss, reduced by .mean() or "
      ".sum()");
  WEFT_CHECK_USER(
      loss.requires_grad(),
      "[capture] the loss does not depend on any parameter that requires a "
      "gradient. Was the model exported under torch.no_grad() or with frozen "
      "parameters?");
}

void run_backward(const at::Tensor& loss) {
  try {
    torch::autograd::backward({loss}, {});
  } catch (const c10::Error& error) {
    throw UserError(
        cat("[capture] the backward pass of the exported model failed: ",
            error.what_without_backtrace()));
  }
}

Graph capture_archive(
    const std::string& path,
    const ExportArchive& archive,
    const std::optional<OptimizerDescription>& optimizer) {
  const schema::GraphModule& module = archive.program().get_graph_module();
  Capture capture(name_of(path), RecordMode::Hollow);
  const Inputs inputs(archive, capture.recorder());
  capture.begin_step(
      inputs.parameters, inputs.buffers, inputs.batch, inputs.saved);
  ExportInterpreter interpreter(capture.recorder());
  at::Tensor loss;
  {
    const auto recording = capture.record_step();
    const c10::AutoGradMode with_grad(true);
    loss = take_outputs(
        module, interpreter.run(module.get_graph(), inputs.all), capture);
    check_loss(loss);
    capture.begin_backward();
    run_backward(loss);
  }
  return capture.finish(loss, optimizer, interpreter.modules());
}

}  // namespace

// What a damaged program has in the place of something else shows where it is
// taken for that.
Graph capture_export(
    const std::string& path,
    const std::optional<OptimizerDescription>& optimizer) {
  const ExportArchive archive(path);
  const auto refuse = [&](const std::string& why) -> Graph {
    throw UserError(
        cat("[capture] ",
            path,
            " holds a program that cannot be captured (",
            why,
            "): is it damaged, or by another PyTorch?"));
  };
  try {
    return capture_archive(path, archive, optimizer);
  } catch (const c10::Error& error) {
    return refuse(error.what_without_backtrace());
  } catch (const std::bad_variant_access&) {
    return refuse("an argument is of another kind than it says");
  } catch (const std::out_of_range& error) {
    return refuse(error.what());
  }
}

}  // namespace weft
