// SPDX-License-Identifier: Apache-2.0
#include "execute/optimizer_tensors.h"

#include "base/error.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

using Tensors = std::vector<at::Tensor>;

// As Python's tensor.mul_(number): a call with the number in C++ puts it first,
// and rounds it to the element type before it multiplies.
const at::Tensor& multiply(const at::Tensor& tensor, double number) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(number));
}

at::Tensor ascent(const OptimizerSettings& s, const at::Tensor& gradient) {
  return s.maximize ? gradient.neg() : gradient;
}

at::Tensor decayed(
    const OptimizerSettings& s,
    const at::Tensor& gradient,
    const at::Tensor& parameter) {
  return s.weight_decay != 0 ? gradient.add(parameter, s.weight_decay)
                             : gradient;
}

void sgd(const OptimizerSettings& s, double lr, double step, const Tensors& t) {
  at::Tensor gradient = decayed(s, ascent(s, t[1]), t[0]);
  if (s.momentum != 0) {
    const at::Tensor& buffer = t[2];
    if (s.has_step && step == 1) {
      buffer.copy_(gradient);
    } else {
      multiply(buffer, s.momentum).add_(gradient, 1 - s.dampening);
    }
    gradient = s.nesterov ? gradient.add(buffer, s.momentum) : buffer;
  }
  t[0].add_(gradient, -lr);
}

void adam(
    const OptimizerSettings& s, double lr, double step, const Tensors& t) {
  const at::Tensor& parameter = t[0];
  at::Tensor gradient = ascent(s, t[1]);
  if (s.decoupled_weight_decay) {
    if (s.weight_decay != 0) {
      multiply(parameter, 1 - lr * s.weight_decay);
    }
  } else {
    gradient = decayed(s, gradient, parameter);
  }
  t[2].lerp_(gradient, 1 - s.beta1);
  multiply(t[3], s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
  const double correction1 = 1 - std::pow(s.beta1, step);
  const double correction2 = 1 - std::pow(s.beta2, step);
  at::Tensor largest = t[3];
  if (s.amsgrad) {
    largest = t[4];
    at::maximum_out(largest, largest, t[3]);
  }
  const at::Tensor denominator =
      largest.sqrt().div_(std::pow(correction2, 0.5)).add_(s.eps);
  parameter.addcdiv_(t[2], denominator, -(lr / correction1));
}

void adagrad(
    const OptimizerSettings& s, double lr, double step, const Tensors& t) {
  const at::Tensor gradient = decayed(s, ascent(s, t[1]), t[0]);
  t[2].addcmul_(gradient, gradient, 1);
  t[0].addcdiv_(
      gradient, t[2].sqrt().add_(s.eps), -(lr / (1 + (step - 1) * s.lr_decay)));
}

void lion(const OptimizerSettings& s, double lr, const Tensors& t) {
  const at::Tensor gradient = ascent(s, t[1]);
  const at::Tensor direction =
      multiply(t[2].clone(), s.beta1).add_(gradient, 1 - s.beta1).sign_();
  if (s.weight_decay != 0) {
    multiply(t[0], 1 - lr * s.weight_decay);
  }
  t[0].add_(direction, -lr);
  multiply(t[2], s.beta2).add_(gradient, 1 - s.beta2);
}

double epsilon_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kHalf:
      return std::numeric_limits<c10::Half>::epsilon();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::epsilon();
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

double norm_of(const at::Tensor& tensor) {
  return tensor.norm(2).item().toDouble();
}

double root_of_count(const at::Tensor& tensor) {
  return std::pow(static_cast<double>(tensor.numel()), 0.5);
}

// The mean of the squares over `dim`, by the norm.
at::Tensor mean_square(const at::Tensor& gradient, int64_t dim) {
  return at::norm(gradient, 2, {dim}, true).square_().div_(gradient.size(dim));
}

void adafactor(
    const OptimizerSettings& s, double lr, double step, const Tensors& t) {
  const at::Tensor& parameter = t[0];
  const at::Tensor gradient = ascent(s, t[1]);
  const double eps1 = s.eps1.value_or(epsilon_of(parameter.scalar_type()));
  const double weight = std::pow(step, s.beta2_decay);
  const double rho = std::min(lr, 1 / std::pow(step, 0.5));
  const double alpha =
      std::max(s.eps2, norm_of(parameter) / root_of_count(parameter)) * rho;
  if (s.weight_decay != 0) {
    multiply(parameter, 1 - lr * s.weight_decay);
  }
  at::Tensor estimate;
  if (gradient.dim() > 1) {
    t[2].lerp_(mean_square(gradient, -1), weight);
    t[3].lerp_(mean_square(gradient, -2), weight);
    estimate = t[2].matmul(t[3]);
    estimate.div_(t[2].mean(at::IntArrayRef{-2}, true).clamp_(eps1));
  } else {
    t[2].lerp_(gradient.mul(gradient), weight);
    estimate = t[2].clone();
  }
  const at::Tensor update = estimate.clamp_(eps1 * eps1).rsqrt_();
  update.mul_(gradient);
  const double denominator =
      std::max(1.0, norm_of(update) / (root_of_count(update) * s.d));
  parameter.add_(update, -alpha / denominator);
}

}  // namespace

void step_in_place(
    const OptimizerSettings& settings,
    double lr,
    double step,
    const Tensors& tensors) {
  switch (settings.kind) {
    case OptimizerKind::Sgd:
      return sgd(settings, lr, step, tensors);
    case OptimizerKind::Adam:
      return adam(settings, lr, step, tensors);
    case OptimizerKind::Adagrad:
      return adagrad(settings, lr, step, tensors);
    case OptimizerKind::Adafactor:
      return adafactor(settings, lr, step, tensors);
    case OptimizerKind::Lion:
      return lion(settings, lr, tensors);
  }
}

void fused_step_in_place(
    const OptimizerSettings& s, double lr, double step, const Tensors& t) {
  const at::TensorList all = t;
  const at::Tensor number = at::scalar_tensor(step, at::kFloat);
  switch (s.kind) {
    case OptimizerKind::Sgd:
      at::_fused_sgd_(
          all.slice(0, 1),
          all.slice(1, 1),
          s.momentum != 0 ? all.slice(2, 1) : at::TensorList{},
          s.weight_decay,
          s.momentum,
          lr,
          s.dampening,
          s.nesterov,
          s.maximize,
          s.has_step && step == 1);
      return;
    case OptimizerKind::Adam: {
      const auto call = [&](auto&& kernel) {
        kernel(
            all.slice(0, 1),
            all.slice(1, 1),
            all.slice(2, 1),
            all.slice(3, 1),
            s.amsgrad ? all.slice(4, 1) : at::TensorList{},
            at::TensorList(number),
            lr,
            s.beta1,
            s.beta2,
            s.weight_decay,
            s.eps,
            s.amsgrad,
            s.maximize,
            std::nullopt,
            std::nullopt);
      };
      if (s.decoupled_weight_decay) {
        call([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
      } else {
        call([](auto&&... arguments) { at::_fused_adam_(arguments...); });
      }
      return;
    }
    case OptimizerKind::Adagrad:
      at::_fused_adagrad_(
          all.slice(0, 1),
          all.slice(1, 1),
          all.slice(2, 1),
          at::TensorList(number),
          lr,
          s.lr_decay,
          s.weight_decay,
          s.eps,
          s.maximize);
      return;
    case OptimizerKind::Adafactor:
    case OptimizerKind::Lion:
      throw UserError(
          "PyTorch has no fused kernel for this optimizer: capture it without "
          "fused=True");
  }
}

}  // namespace weft
