// SPDX-License-Identifier: Apache-2.0
// A model whose Python looks at values takes its path by them. Each path that
// was seen is a step of its own, guarded by the values that lead to it.
#pragma once

#include "train/trainer.h"

#include <functional>

namespace weft {

// So many are captured for batches of one type.
inline constexpr size_t kMostBranches = 16;

// Calls `fill`, which puts the batch into a step, and `run` for the step that
// ran last, then for the others while a guard fails, then for one that is
// captured anew; that is told on the standard error stream when it first
// happens. Throws UserError when
// guards fail and there are too many steps, when the step is a pipeline, whose
// other stages do not hear of it, and when a guard fails with the batch that
// its step was captured with.
void run_branch(
    Trainer& trainer,
    const BatchTypes& types,
    StepKind kind,
    const std::function<void(PreparedStep&)>& fill,
    const std::function<void(PreparedStep&)>& run);

}  // namespace weft
