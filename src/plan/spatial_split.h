// SPDX-License-Identifier: Apache-2.0
// Where images and volumes are found in a step, and where they end.
#pragma once

#include "graph/graph.h"

#include <cstddef>
#include <vector>

namespace weft {

// The dims before space: samples and channels.
constexpr size_t kFirstSpatialDim = 2;

// The first dim of space in an input of the batch like `image`: itself, or
// labels of its pixels, which have no channels. 0 for any other.
size_t first_spatial_dim(const TensorType& input, const TensorType& image);

// The values that the step makes of `image`s when it is done with them: with
// samples as their first dim, without space, and no image is made of them
// again, but parameters follow. Those, the head, are better split by samples.
std::vector<ValueId> heads(const Function& step, const TensorType& image);

// Gradients that are spread over space on their way back: small, and better had
// whole where an image is made of them.
std::vector<ValueId> spread_gradients(
    const Function& step, const TensorType& image);

}  // namespace weft
