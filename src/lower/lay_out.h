// SPDX-License-Identifier: Apache-2.0
// A step laid out as it is, before anything is made again.
#pragma once

#include "lower/pass.h"

namespace weft {

// With read_parameters and propagate_layouts done, by the memo where another
// plan had the same. The lowering is one before `recompute` has changed its
// step.
Lowering laid_out(const Lowering& lowering);

}  // namespace weft
