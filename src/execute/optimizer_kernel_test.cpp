// SPDX-License-Identifier: Apache-2.0
// That the kernels round as torch.optim does is held by
// test/python/test_optimizers.py; here, that it does not matter where their
// tensors lie.
#include "base/error.h"
#include "execute/kernel.h"
#include "graph/graph.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <gtest/gtest.h>

namespace weft {
namespace {

Graph adamw_graph(const std::string& type, const std::string& options) {
  return parse_graph(
      "graph @g func @step { input %w : " + type +
          " = parameter \"w\" trained input %g : " + type +
          " = batch \"0\" input %m : " + type +
          " = state \"w.exp_avg\" input %v : " + type +
          " = state \"w.exp_avg_sq\" input %n : f32[] = state \"w.step\" "
          "input %lr : f64[] = scalar \"lr.0\" optimizer: %w1, %m1, %v1, %n1 = "
          "weft.adamw(%w, %g, %m, %v, %n, %lr, weight_decay=0.1" +
          options + ") : " + type + ", " + type + ", " + type + ", f32[] }",
      "t");
}

std::vector<at::Tensor> adamw_tensors(at::IntArrayRef sizes) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  const auto numbers = [&] {
    return at::empty(sizes).uniform_(0.1, 1, generator);
  };
  return {
      numbers(),
      numbers(),
      numbers(),
      numbers(),
      at::scalar_tensor(3.0),
      at::scalar_tensor(0.01, at::kDouble)};
}

std::vector<at::Tensor> as_results(const std::vector<at::Tensor>& operands) {
  return {operands[0], operands[2], operands[3], operands[4]};
}

void run(
    const Graph& graph,
    std::vector<at::Tensor> operands,
    std::vector<at::Tensor> results) {
  const Function& step = step_of(graph);
  bind_kernel(
      {step,
       step.nodes[0],
       std::move(operands),
       std::move(results),
       whole_pieces(step[step.nodes[0].results[0]].type.sizes)})({});
}

TEST(OptimizerKernel, InPlaceIsAsApart) {
  for (const std::string options : {"", ", fused=1", ", amsgrad=0"}) {
    const Graph graph = adamw_graph("f32[300, 70]", options);
    const std::vector<at::Tensor> operands = adamw_tensors({300, 70});
    std::vector<at::Tensor> before;
    std::vector<at::Tensor> apart;
    for (const at::Tensor& tensor : operands) {
      before.push_back(tensor.clone());
    }
    for (const at::Tensor& tensor : as_results(operands)) {
      apart.push_back(at::empty_like(tensor));
    }
    run(graph, operands, apart);
    for (size_t i = 0; i < operands.size(); ++i) {
      EXPECT_TRUE(operands[i].equal(before[i])) << i;
    }
    run(graph, operands, as_results(operands));
    for (size_t i = 0; i < apart.size(); ++i) {
      EXPECT_TRUE(apart[i].equal(as_results(operands)[i])) << i;
    }
  }
}

TEST(OptimizerKernel, LayoutsMayDiffer) {
  const Graph graph = adamw_graph("f32[30, 70]", "");
  std::vector<at::Tensor> operands = adamw_tensors({30, 70});
  std::vector<at::Tensor> otherwise;
  for (const at::Tensor& tensor : operands) {
    // The gradient by columns, the first state with gaps.
    otherwise.push_back(tensor.clone());
  }
  otherwise[1] = at::empty({70, 30}).t().copy_(operands[1]);
  otherwise[2] = at::empty({30, 90}).narrow(1, 5, 70).copy_(operands[2]);
  run(graph, otherwise, as_results(otherwise));
  run(graph, operands, as_results(operands));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(as_results(operands)[i].equal(as_results(otherwise)[i])) << i;
  }
}

TEST(OptimizerKernel, OperandsThatAreNotThoseOfTheOptionsAreRefused) {
  const Graph graph = adamw_graph("f32[8]", ", amsgrad=1");
  std::vector<at::Tensor> operands = adamw_tensors({8});
  EXPECT_THROW(run(graph, operands, as_results(operands)), UserError);
}

TEST(BindKernel, IsEmptyForWhatPyTorchHas) {
  const Graph graph = parse_graph(
      "graph @g func @step { input %x : f32[2] = batch \"0\" forward: %y = "
      "aten.relu(%x) : f32[2] }",
      "t");
  const Function& step = step_of(graph);
  EXPECT_FALSE(
      bind_kernel({step, step.nodes[0], {at::ones({2})}, {at::ones({2})}, {}}));
}

double seconds(const std::function<void()>& call) {
  call();
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

TEST(OptimizerKernel, PrintsItsSpeedBesideTheFusedOne) {
  at::set_num_threads(1);
  const std::string type = "f32[4096, 1024]";
  const std::vector<at::Tensor> operands = adamw_tensors({4096, 1024});
  const auto bound = [&](const Graph& graph) {
    const Function& step = step_of(graph);
    return bind_kernel(
        {step, step.nodes[0], operands, as_results(operands), {}});
  };
  const Graph plain = adamw_graph(type, "");
  const Graph fused = adamw_graph(type, ", fused=1");
  const Kernel ours = bound(plain);
  const Kernel theirs = bound(fused);
  const double ours_seconds = seconds([&] { ours({}); });
  const double theirs_seconds = seconds([&] { theirs({}); });
  std::printf(
      "adamw of 2^22 elements: %.2f ns an element, PyTorch's fused kernel "
      "%.2f\n",
      ours_seconds * 1e9 / (1 << 22),
      theirs_seconds * 1e9 / (1 << 22));
  EXPECT_TRUE(operands[0].isfinite().all().item<bool>());
}

}  // namespace
}  // namespace weft
