// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include "program/live_bytes.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// A layer that is trained by plain descent, and returns its gradient.
const char* const kTrained = R"(graph @g

func @step {
  input %x : f32[8, 32] = batch "0"
  input %w : f32[32, 64] = parameter "w" trained
  input %lr.0 : f64[] = scalar "lr.0"
forward:
  %y = aten.mm(%x, %w) : f32[8, 64]
  %loss = aten.sum(%y) : f32[]
backward:
  %seed = aten.ones_like(%loss) : f32[]
  %dy = aten.expand(%seed, [8, 64]) : f32[8, 64]{0, 0}
  %x.t = aten.t(%x) : f32[32, 8]{1, 32}
  %dw = aten.mm(%x.t, %dy) : f32[32, 64]
optimizer:
  %w.1 = weft.sgd(%w, %dw, %lr.0) : f32[32, 64]
  return loss = %loss
  return gradient "w" = %dw
  return parameter "w" = %w.1
}
)";

// Who plans a step plans what is run.
TEST(PlannedStep, TakesTheMemoryOfTheStepThatIsRun) {
  const Graph graph = parse_graph(kTrained, "t");
  Plan alone;
  alone.graph = graph.name;
  TrainerOptions clipped;
  clipped.clip_norm = 1;
  TrainerOptions scaled;
  scaled.scale_loss = true;
  TrainerOptions keeping;
  keeping.keep_gradients = true;
  keeping.bad_loss = BadLoss::GoOn;
  for (const TrainerOptions& options :
       {TrainerOptions(), clipped, scaled, keeping}) {
    Trainer trainer(
        [&](const BatchTypes&, StepKind) { return graph; },
        [&](const Graph&) { return alone; },
        options,
        nullptr);
    const PreparedStep& run =
        trainer.prepare(batch_types(graph), StepKind::Train);
    const Program planned = lower(planned_step(graph, options), alone);
    EXPECT_EQ(
        peak_bytes(planned.blocks.front()),
        peak_bytes(run.program.blocks.front()));
  }
}

}  // namespace
}  // namespace weft
