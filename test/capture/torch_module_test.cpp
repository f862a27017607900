// SPDX-License-Identifier: Apache-2.0
// C++ modules: captured without values, replayed on values, held against
// autograd bit for bit.
#include "capture/torch_module.h"

#include "base/error.h"
#include "execute/replay.h"

#include <torch/nn.h>

#include <gtest/gtest.h>
#include <map>
#include <set>

namespace weft {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct MlpImpl : nn::Module {
  MlpImpl() {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    layers = register_module(
        "layers",
        nn::Sequential(
            nn::Linear(16, 32),
            nn::GELU(),
            nn::Dropout(0.2),
            nn::Linear(nn::LinearOptions(32, 16).bias(false))));
    head = register_module("head", nn::Linear(16, 5));
  }
  at::Tensor forward(at::Tensor x) {
    x = x + layers->forward(norm->forward(x));
    return head->forward(x);
  }
  nn::LayerNorm norm = nullptr;
  nn::Sequential layers = nullptr;
  nn::Linear head = nullptr;
};

struct ConvNetImpl : nn::Module {
  ConvNetImpl() {
    conv = register_module(
        "conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)));
    norm = register_module("norm", nn::BatchNorm2d(8));
    head = register_module("head", nn::Linear(8, 5));
  }
  at::Tensor forward(at::Tensor x) {
    x = norm->forward(conv->forward(x)).relu_();
    x = F::max_pool2d(x, F::MaxPool2dFuncOptions(2));
    return head->forward(x.mean({2, 3}));
  }
  nn::Conv2d conv = nullptr;
  nn::BatchNorm2d norm = nullptr;
  nn::Linear head = nullptr;
};

template <typename Net>
ModuleStep classify(std::vector<int64_t> shape) {
  auto net = std::make_shared<Net>();
  const at::Tensor x = torch::randn(shape);
  const at::Tensor labels = torch::randint(5, {shape[0]});
  return {net, {{"x", x}, {"labels", labels}}, [=] {
            return F::cross_entropy(net->forward(x), labels);
          }};
}

// Tensors by the key of the graph's input.
std::map<std::string, at::Tensor> tensors_of(const ModuleStep& step) {
  std::map<std::string, at::Tensor> tensors;
  for (const NamedTensor& one : step.batch) {
    tensors[one.name] = one.tensor;
  }
  for (const auto& item : step.module->named_parameters()) {
    tensors[item.key()] = item.value().detach();
  }
  for (const auto& item : step.module->named_buffers()) {
    tensors[item.key()] = item.value().clone();
  }
  return tensors;
}

void expect_equals_eager(
    const Graph& graph, const std::function<ModuleStep()>& build) {
  verify(graph);
  torch::manual_seed(0);
  const ModuleStep step = build();
  const std::map<std::string, at::Tensor> tensors = tensors_of(step);
  const Function& function = step_of(graph);
  std::vector<at::Tensor> inputs;
  for (const Input& input : function.inputs) {
    inputs.push_back(
        input.kind == InputKind::Constant
            ? constant_tensor(graph, input.keys.front())
            : tensors.at(input.keys.front()));
  }
  torch::manual_seed(1);
  const std::vector<at::Tensor> outputs = replay(function, inputs);
  torch::manual_seed(1);
  const at::Tensor loss = step.loss();
  loss.backward();

  const auto parameters = step.module->named_parameters();
  const auto buffers = step.module->named_buffers();
  std::set<std::string> with_gradient;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = function.outputs[i];
    if (output.kind == OutputKind::Loss) {
      EXPECT_TRUE(outputs[i].equal(loss.detach()));
    } else if (output.kind == OutputKind::Gradient) {
      with_gradient.insert(output.key);
      EXPECT_TRUE(outputs[i].equal(parameters[output.key].grad()))
          << output.key;
    } else if (output.kind == OutputKind::Buffer) {
      EXPECT_TRUE(outputs[i].equal(buffers[output.key])) << output.key;
    }
  }
  for (const auto& item : parameters) {
    EXPECT_TRUE(with_gradient.contains(item.key())) << item.key();
  }
}

// The same seed gives the same parameters.
void expect_initialised_as_eager(
    const Graph& graph, const std::function<ModuleStep()>& build) {
  const Function* init = find_function(graph, "init");
  ASSERT_NE(init, nullptr);
  torch::manual_seed(7);
  const auto parameters = build().module->named_parameters();
  torch::manual_seed(7);
  const std::vector<at::Tensor> made = replay(*init, {});
  for (size_t i = 0; i < made.size(); ++i) {
    const Output& output = init->outputs[i];
    if (output.kind == OutputKind::Parameter) {
      EXPECT_TRUE(made[i].equal(parameters[output.key].detach())) << output.key;
    }
  }
}

// The modules of the step's nodes that call `op`, in order.
std::vector<std::string> paths_of(const Graph& graph, std::string_view op) {
  std::vector<std::string> paths;
  const Function& step = step_of(graph);
  for (const Node& node : step.nodes) {
    if (node.op == op) {
      paths.emplace_back(module_path(step, node));
    }
  }
  return paths;
}

TEST(TorchModule, MlpReplaysAsAutograd) {
  const auto build = [] { return classify<MlpImpl>({4, 16}); };
  const Graph graph = capture_module("mlp", build);
  expect_equals_eager(graph, build);
  expect_initialised_as_eager(graph, build);
}

TEST(TorchModule, ConvNetReplaysAsAutograd) {
  const auto build = [] { return classify<ConvNetImpl>({4, 3, 8, 8}); };
  const Graph graph = capture_module("conv_net", build);
  expect_equals_eager(graph, build);
  expect_initialised_as_eager(graph, build);
}

TEST(TorchModule, NodesBelongToTheModuleOfTheirParameters) {
  using Paths = std::vector<std::string>;
  const Graph graph =
      capture_module("mlp", [] { return classify<MlpImpl>({4, 16}); });
  EXPECT_EQ(paths_of(graph, "aten.addmm"), (Paths{"layers.0", "head"}));
  EXPECT_EQ(paths_of(graph, "aten.native_layer_norm"), Paths{"norm"});
  EXPECT_EQ(paths_of(graph, "aten.gelu"), Paths{"layers"});
  // A node of backward has the module of its node of forward.
  EXPECT_EQ(paths_of(graph, "aten.native_layer_norm_backward"), Paths{"norm"});
  EXPECT_EQ(paths_of(graph, "aten.gelu_backward"), Paths{"layers"});
  ASSERT_FALSE(graph.modules.empty());
  EXPECT_EQ(graph.modules.front(), (Module{"", "Mlp"}));
}

TEST(TorchModule, CodeThatReadsValuesRunsForReal) {
  const auto build = [] {
    ModuleStep step = classify<MlpImpl>({4, 16});
    const auto loss = step.loss;
    const at::Tensor x = step.batch.front().tensor;
    step.loss = [=] { return loss() * (x.sum().item<float>() < 1e9 ? 2 : 1); };
    return step;
  };
  const Graph graph = capture_module("reads", build);
  EXPECT_EQ(paths_of(graph, "weft.guard").size(), 1U);
}

// What capture says to a step that it does not take; empty when it does.
std::string refusal(const std::function<ModuleStep()>& build) {
  try {
    capture_module("refused", build);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TorchModule, OneTensorUnderTwoKeysOfTheBatchIsRefused) {
  const auto build = [] {
    ModuleStep step = classify<MlpImpl>({4, 16});
    step.batch.push_back({"again", step.batch.front().tensor});
    return step;
  };
  EXPECT_EQ(
      refusal(build),
      "[capture] \"x\" and \"again\" of the batch are one tensor: give one "
      "of them a clone()");
}

TEST(TorchModule, ALossThatIsNotOneNumberIsRefused) {
  const auto build = [] {
    auto net = std::make_shared<MlpImpl>();
    const at::Tensor x = torch::randn({4, 16});
    return ModuleStep{net, {{"x", x}}, [=] { return net->forward(x); }};
  };
  EXPECT_EQ(
      refusal(build),
      "[capture] the loss must be one number; it is f32[4, 5]. Reduce it "
      "with .mean() or .sum()");
}

}  // namespace
}  // namespace weft
