// SPDX-License-Identifier: Apache-2.0
// Steps of optimizers over f32 elements: one pass over memory, each element
// rounded as torch.optim's plain path rounds it on this machine.
#pragma once

#include "execute/optimizer_settings.h"

#include <array>
#include <cstdint>

namespace weft {

// `in` are the parameter, the gradient and the states, `out` the parameter and
// the states. A pointer of `out` may be the one of `in`.
struct OptimizerPointers {
  std::array<const float*, 5> in = {};
  std::array<float*, 4> out = {};
};

// Writes the square roots of `count` numbers. PyTorch takes them from a library
// that does not round every one correctly, so it has to be asked.
using RootFunction = void (*)(const float* from, float* to, int64_t count);

// True for the optimizers that work element by element.
bool has_loop(const OptimizerSettings& settings);

// `step` is the number of the step that is being made, from 1.
// `fused_rounding`: a product and a sum are rounded once, as PyTorch's kernels
// for AVX2 do.
void optimizer_loop(
    const OptimizerSettings& settings,
    double lr,
    double step,
    const OptimizerPointers& pointers,
    int64_t count,
    bool fused_rounding,
    RootFunction root);

}  // namespace weft
