// SPDX-License-Identifier: Apache-2.0
#include "execute/optimizer_call.h"

#include "base/error.h"
#include "ops/call.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/add.h>

namespace weft {
namespace {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

bool is_on(const Node& node, std::string_view name) {
  return number_option(node, name, 0) != 0;
}

AdamOptions adam_options(const Node& node) {
  AdamOptions options;
  options.beta1 = number_option(node, "beta1", options.beta1);
  options.beta2 = number_option(node, "beta2", options.beta2);
  options.eps = number_option(node, "eps", options.eps);
  options.weight_decay = number_option(node, "weight_decay", 0);
  options.amsgrad = is_on(node, "amsgrad");
  options.maximize = is_on(node, "maximize");
  return options;
}

using FusedAdam = void (*)(
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    at::TensorList,
    double,
    double,
    double,
    double,
    double,
    bool,
    bool,
    const std::optional<at::Tensor>&,
    const std::optional<at::Tensor>&);

// (parameter, gradient, exp_avg, exp_avg_sq, max_exp_avg_sq?, step, lr)
Kernel adam_call(const Node& node, FusedAdam fused) {
  const AdamOptions options = adam_options(node);
  const size_t expected = options.amsgrad ? 7 : 6;
  WEFT_CHECK_USER(
      operands(node).size() == expected && node.results.size() == expected - 2,
      node.op,
      " takes ",
      expected,
      " tensors and gives ",
      expected - 2);
  return [options, fused](c10::ArrayRef<at::Tensor> in) {
    std::vector<at::Tensor> out = {in[0].clone()};
    for (size_t i = 2; i + 2 < in.size(); ++i) {
      out.push_back(in[i].clone());
    }
    // The kernel wants the number of the step that it makes.
    out.push_back(at::add(in[in.size() - 2], 1));
    const at::TensorList all = out;
    const at::TensorList maxima =
        options.amsgrad ? all.slice(3, 1) : at::TensorList{};
    fused(
        all.slice(0, 1),
        in.slice(1, 1),
        all.slice(1, 1),
        all.slice(2, 1),
        maxima,
        all.slice(out.size() - 1, 1),
        in.back().item<double>(),
        options.beta1,
        options.beta2,
        options.weight_decay,
        options.eps,
        options.amsgrad,
        options.maximize,
        std::nullopt,
        std::nullopt);
    return out;
  };
}

// (parameter, gradient, momentum_buffer?, lr). A buffer of zeros at the first
// step gives torch's first step only without dampening.
Kernel sgd_call(const Node& node) {
  const double momentum = number_option(node, "momentum", 0);
  const double dampening = number_option(node, "dampening", 0);
  const double weight_decay = number_option(node, "weight_decay", 0);
  const bool nesterov = is_on(node, "nesterov");
  const bool maximize = is_on(node, "maximize");
  WEFT_CHECK_USER(
      dampening == 0, "weft.sgd with dampening is not executed yet");
  return [=](c10::ArrayRef<at::Tensor> in) {
    std::vector<at::Tensor> out = {in[0].clone()};
    if (momentum != 0) {
      out.push_back(in[2].clone());
    }
    const at::TensorList all = out;
    at::_fused_sgd_(
        all.slice(0, 1),
        in.slice(1, 1),
        momentum != 0 ? all.slice(1, 1) : at::TensorList{},
        weight_decay,
        momentum,
        in.back().item<double>(),
        dampening,
        nesterov,
        maximize,
        /*is_first_step=*/false);
    return out;
  };
}

}  // namespace

bool is_optimizer_node(const Node& node) {
  return node.phase == Phase::Optimizer && node.op.rfind("weft.", 0) == 0;
}

Kernel optimizer_call(const Function& function, const Node& node) {
  const bool is_adam = node.op == "weft.adam";
  if (node.op == "weft.adamw" ||
      (is_adam && is_on(node, "decoupled_weight_decay"))) {
    return adam_call(node, &at::_fused_adamw_);
  }
  if (is_adam) {
    return adam_call(node, &at::_fused_adam_);
  }
  if (node.op == "weft.sgd") {
    return sgd_call(node);
  }
  throw UserError(
      cat("%",
          function[node.results.front()].name,
          ": ",
          node.op,
          " is not executed yet (adamw, adam and sgd are)"));
}

}  // namespace weft
