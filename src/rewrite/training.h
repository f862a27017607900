// SPDX-License-Identifier: Apache-2.0
// Graph -> Graph: what a training loop does around backward and the optimizer,
// as nodes. Unlike the passes of graph_pass.h these change what a step
// computes, each to what the PyTorch loop with that call computes, bit for bit.
//
// New nodes are of the optimizer phase and read what the optimizer would read,
// so the order of calls is the order in which things happen: scale_loss, then
// clip_gradients. Outputs of kind Gradient stay as backward made them. All
// throw UserError for a graph without an optimizer.
#pragma once

#include "graph/graph.h"

#include <cstdint>

namespace weft {

// torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False):
// optimizer nodes read gradients that are scaled down together when their norm
// is above `max_norm`. Adds the output Extra "gradient_norm", the norm before.
void clip_gradients(Graph& graph, double max_norm);

// torch.amp.GradScaler: backward starts from the new Scalar input "loss_scale"
// (f32[]) instead of 1, gradients are divided by it before the optimizer reads
// them, and when any is not finite no parameter and no state changes. Adds the
// output Extra "found_inf": 1 then, else 0. How the scale follows is the
// caller's.
void scale_loss(Graph& graph);

// No parameter and no state changes when the loss is not finite.
void skip_bad_loss(Graph& graph);

struct AccumulationGraphs {
  // Forward and backward of loss / count. The gradients are added to the State
  // inputs "<parameter>.gradient" and come out under the same keys, buffers
  // as they did. The loss that comes out is not divided. Has `init` too.
  Graph accumulate;
  // The optimizer, with the States "<parameter>.gradient" as gradients; they
  // come out as zeros.
  Graph update;
};

// `count` runs of `accumulate` and one of `update` make one step of the loop
// (loss / count).backward() ... optimizer.step(), optimizer.zero_grad(). Takes
// graphs after scale_loss and clip_gradients too. The outputs of kind Gradient
// must still be there.
AccumulationGraphs accumulate_gradients(const Graph& graph, int64_t count);

// The outputs of kind Gradient go, so that nothing has to keep gradients to the
// end of the step.
void drop_gradient_outputs(Graph& graph);

}  // namespace weft
