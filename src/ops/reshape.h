// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/tensor_type.h"
#include "ops/rule.h"

namespace weft {

// How row-major elements of one shape line up with those of another of as many
// elements: [6, 4] to [3, 8] is "(a=3 b=2) c=4 -> a (b c)". Where sizes do not
// divide each other, the dims share the greatest common factor and the rest is
// whole.
Rule reshape_rule(const Dims& from, const Dims& to);

// The sizes with -1 worked out.
Dims resolve_sizes(const Dims& from, Dims sizes);

}  // namespace weft
