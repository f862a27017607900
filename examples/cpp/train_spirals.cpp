// SPDX-License-Identifier: Apache-2.0
// A torch::nn model, trained by Weft on two spirals. Started by torchrun
// (--no-python), the ranks share each step: example_train_spirals [WORDS].
#include "base/error.h"
#include "capture/torch_module.h"
#include "execute/communicator.h"
#include "plan/parallel.h"
#include "train/state_store.h"

#include <torch/nn.h>

#include <iostream>
#include <numeric>
#include <vector>

namespace {
constexpr int64_t kBatch = 64;

weft::ModuleStep build() {
  torch::nn::Sequential net(
      torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 2));
  const at::Tensor x = torch::zeros({kBatch, 2});
  const at::Tensor y = torch::zeros({kBatch}, torch::kLong);
  return {net.ptr(), {{"x", x}, {"y", y}}, [=]() mutable {
            return torch::nn::functional::cross_entropy(net->forward(x), y);
          }};
}

std::vector<at::Tensor> spirals() {
  const at::Tensor y = torch::randint(2, {kBatch}, torch::kLong);
  const at::Tensor radius = torch::rand({kBatch});
  const at::Tensor angle = 4 * radius + y * M_PI;
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), y};
}

void train(const char* words) {
  torch::manual_seed(0);
  const weft::OptimizerDescription adam = {
      "adam", {{{{"lr", 0.02}}, {"0.weight", "0.bias", "2.weight", "2.bias"}}}};
  const weft::Graph graph = weft::capture_module("spirals", build, adam);
  const weft::Rendezvous rendezvous =
      weft::rendezvous_from_environment().value_or(weft::Rendezvous{});
  const auto world = rendezvous.size > 1 ? weft::connect(rendezvous) : nullptr;
  const weft::Parallel parallel = words == nullptr
                                      ? weft::Parallel{.data = rendezvous.size}
                                      : weft::parse_parallel(words, "WORDS");
  weft::Trainer trainer(
      [&](const weft::BatchTypes&, weft::StepKind) { return graph; },
      [&](const weft::Graph& one) {
        weft::Plan plan = weft::expand(parallel, one);
        weft::verify_ranks(plan, rendezvous.size);
        return plan;
      },
      {.rank = rendezvous.rank, .ranks = rendezvous.size, .lowering = {}},
      world.get());
  weft::PreparedStep& step =
      trainer.prepare(weft::batch_types(graph), weft::StepKind::Train);
  weft::initialise_parameters(trainer, graph);
  for (int64_t number = 0; number < 200; ++number) {
    trainer.set_batch(step, spirals());
    const double loss = trainer.train(step, number, {0.02}).loss;
    if (rendezvous.rank == 0 && number % 40 == 39) {
      std::cout << "step " << number + 1 << "  loss " << loss << "\n";
    }
  }
  // Whichever ranks have it: put together on all of them.
  std::vector<int64_t> all(static_cast<size_t>(rendezvous.size));
  std::iota(all.begin(), all.end(), 0);
  const auto everybody = world ? world->group(all) : nullptr;
  const at::Tensor weight =
      weft::whole_tensor(trainer, everybody.get(), "parameter/2.weight");
  if (rendezvous.rank == 0) {
    std::cout << "norm of 2.weight  " << weight.norm().item<double>() << "\n";
  }
}
}  // namespace

// The words say how ranks share the step, as in docs/parallel.md; without them
// each takes a part of the batch.
int main(int count, char** words) {
  try {
    train(count > 1 ? words[1] : nullptr);
  } catch (const weft::UserError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
