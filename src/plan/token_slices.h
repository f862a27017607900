// SPDX-License-Identifier: Apache-2.0
// How long slices of a sequence should be that go through a pipeline one after
// the other, each seeing those before it (TeraPipe's question).
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"

#include <cstdint>
#include <vector>

namespace weft {

// What a slice costs one stage, forward and backward.
struct SliceCosts {
  // However short it is.
  double slice = 0;
  // For each slice before it, however short they are; and each of its tokens.
  double block = 0;
  double block_token = 0;
  // For each token, and each pair of a token and one that it sees.
  double token = 1;
  double pair = 0;
};
// `earlier`: how many slices are before it; `before`: their tokens.
double slice_cost(
    const SliceCosts& costs, int64_t earlier, int64_t before, int64_t length);

struct SliceShape {
  // Of the sequence, in tokens.
  int64_t length = 1;
  int64_t stages = 1;
  int64_t micro_batches = 1;
};

// What the step takes: all slices one after the other, and the longest once
// more for every further stage.
double pipeline_cost(
    const SliceCosts& costs,
    const SliceShape& shape,
    const std::vector<int64_t>& lengths);

// The lengths for which that is least, to 0.1 %. They are multiples of a 32nd
// of the sequence, but for the last.
std::vector<int64_t> best_slices(
    const SliceCosts& costs, const SliceShape& shape);

// By what calls of that size take on the device (profile/call_seconds.h), and
// by the parameters, which each slice reads anew: in seconds, of a step that is
// cut into stages of equal work. `length`: of its sequence. What is computed by
// blocks (OpDef::blocks) goes by pairs.
SliceCosts slice_costs(
    const Function& step, const Device& device, const SliceShape& shape);

}  // namespace weft
