// SPDX-License-Identifier: Apache-2.0
// A torch::nn module of a C++ program, to a Graph.
//
//   Graph graph = capture_module("net", [] {
//     auto net = std::make_shared<NetImpl>();
//     at::Tensor x = torch::randn({32, 64}), y = torch::randint(10, {32});
//     return ModuleStep{net, {{"0", x}, {"1", y}}, [=] {
//       return torch::nn::functional::cross_entropy(net->forward(x), y);
//     }};
//   });
//
// C++ modules have no hooks, so nobody says which module is running. A node
// that reads a parameter or a buffer belongs to the module that owns it; one
// that does not, to the module around the one that gave its newest operand.
#pragma once

#include "capture/capture.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace weft {

// One training step of a C++ program.
struct ModuleStep {
  std::shared_ptr<torch::nn::Module> module;
  // The tensors that change from step to step, each under a name of its own.
  std::vector<NamedTensor> batch;
  // Runs forward and gives the loss, one number.
  std::function<at::Tensor()> loss;
};

// `build` makes the module and a batch; both are recorded, and nothing is
// allocated or computed. When the code reads values while it runs, `build` is
// called a second time and the step runs for real on the CPU. Throws UserError
// for a step that a Graph cannot hold.
Graph capture_module(
    const std::string& name,
    const std::function<ModuleStep()>& build,
    const std::optional<OptimizerDescription>& optimizer = std::nullopt);

}  // namespace weft
