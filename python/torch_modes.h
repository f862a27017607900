// SPDX-License-Identifier: Apache-2.0
// PyTorch's settings that change what a step computes, as they are in this
// thread.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace weft {

struct TorchModes {
  bool is_autocast = false;
  c10::ScalarType autocast_dtype = c10::ScalarType::Undefined;
  bool is_autocast_cached = false;
  bool has_gradients = true;
  bool is_inference = false;
  c10::ScalarType default_dtype = c10::ScalarType::Float;
  bool is_deterministic = false;
  bool fills_uninitialized = false;
  int matmul_precision = 0;
  // Which kinds of scaled dot product attention may be taken, and oneDNN.
  std::vector<bool> backends;
  bool finds_anomalies = false;
  // Of __torch_function__ and __torch_dispatch__ that are on.
  std::vector<const void*> python_modes;

  bool operator==(const TorchModes&) const = default;
};

TorchModes torch_modes();
// The first that is different, as a script calls it: "torch.autocast".
std::string difference(const TorchModes& before, const TorchModes& now);

}  // namespace weft
