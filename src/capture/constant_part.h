// SPDX-License-Identifier: Apache-2.0
// The part of a step that depends on constants alone: a table of positions that
// a model makes in its first step and keeps.
#pragma once

#include "graph/graph.h"

#include <optional>

namespace weft {

// A function that makes `value` alone; none when it depends on anything that
// may be another in the next step: the batch, parameters, buffers, random
// numbers.
std::optional<Function> constant_part(const Function& step, ValueId value);

}  // namespace weft
