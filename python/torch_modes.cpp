// SPDX-License-Identifier: Apache-2.0
#include "torch_modes.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>

namespace weft {

TorchModes torch_modes() {
  const at::Context& context = at::globalContext();
  TorchModes modes;
  modes.is_autocast = at::autocast::is_autocast_enabled(at::kCPU);
  if (modes.is_autocast) {
    modes.autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU);
    modes.is_autocast_cached = at::autocast::is_autocast_cache_enabled();
  }
  modes.has_gradients = c10::GradMode::is_enabled();
  modes.is_inference = c10::InferenceMode::is_enabled();
  modes.default_dtype = c10::typeMetaToScalarType(c10::get_default_dtype());
  modes.is_deterministic = context.deterministicAlgorithms();
  modes.fills_uninitialized = context.deterministicFillUninitializedMemory();
  modes.matmul_precision = static_cast<int>(context.float32MatmulPrecision());
  modes.backends = {
      context.userEnabledFlashSDP(),
      context.userEnabledMemEfficientSDP(),
      context.userEnabledMathSDP(),
      context.userEnabledMkldnn()};
  modes.finds_anomalies = torch::autograd::AnomalyMode::is_enabled();
  for (int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    modes.python_modes.push_back(
        at::impl::PythonTorchFunctionTLS::get_stack_at(i).get());
  }
  for (int64_t i = 0; i < c10::impl::TorchDispatchModeTLS::stack_len(); ++i) {
    modes.python_modes.push_back(
        c10::impl::TorchDispatchModeTLS::get_stack_at(i).get());
  }
  return modes;
}

std::string difference(const TorchModes& before, const TorchModes& now) {
  if (before.is_autocast != now.is_autocast ||
      before.autocast_dtype != now.autocast_dtype ||
      before.is_autocast_cached != now.is_autocast_cached) {
    return "torch.autocast";
  }
  if (before.has_gradients != now.has_gradients ||
      before.is_inference != now.is_inference) {
    return "torch.no_grad or torch.inference_mode";
  }
  if (before.default_dtype != now.default_dtype) {
    return "torch.set_default_dtype";
  }
  if (before.is_deterministic != now.is_deterministic ||
      before.fills_uninitialized != now.fills_uninitialized) {
    return "torch.use_deterministic_algorithms";
  }
  if (before.matmul_precision != now.matmul_precision) {
    return "torch.set_float32_matmul_precision";
  }
  if (before.backends != now.backends) {
    return "torch.backends";
  }
  if (before.finds_anomalies != now.finds_anomalies) {
    return "torch.autograd.set_detect_anomaly";
  }
  return before == now ? "" : "a mode of __torch_function__";
}

}  // namespace weft
