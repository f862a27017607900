// SPDX-License-Identifier: Apache-2.0
// Parameters and buffers as the model's constructor would make them, by the
// graph's function `init`.
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// The outputs of `init` in their order. Random numbers are counted
// (bind_kernel), so they follow from the seed alone. A value is freed when its
// last reader has run. Throws UserError when the graph has no `init` (a model
// captured live).
std::vector<at::Tensor> initialise(const Graph& graph, uint64_t seed);

// Only these outputs, in this order: nodes that they do not need do not run.
// Equal to those of the whole. `kind` and `key` of each must be an output of
// `init`, else UserError.
std::vector<at::Tensor> initialise(
    const Graph& graph, uint64_t seed, const std::vector<Output>& wanted);

}  // namespace weft
