// SPDX-License-Identifier: Apache-2.0
// A step laid out as it is, before anything is made again.
#pragma once

#include "lower/laid_out.h"
#include "lower/pass.h"

namespace weft {

// With read_parameters and propagate_layouts done, by the memo where another
// plan had the same. The lowering is one before `recompute` has changed its
// step.
Lowering laid_out(Lowering lowering);

// Of a lowering that has layouts, what they are of and what they are.
LaidOutStep taken_from(Lowering lowering);

}  // namespace weft
