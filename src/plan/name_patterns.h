// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

#include <string>
#include <vector>

namespace weft {

// The name with '*' for every number that is a whole part of its module's path:
// `blocks.*.up/mm.1` for `blocks.3.up/mm.1`. Numbers after '/' count calls.
std::string layer_pattern(const std::string& name);

// The decisions, one a value of the step by its name, with one line in place of
// several where a pattern says the same: `blocks.*.up.weight` for
// `blocks.0.up.weight`, `blocks.1.up.weight`. A pattern matches only values
// that are decided so. In the order of the first of them.
std::vector<Decision> with_patterns(
    const std::vector<Decision>& decisions, const Function& step);

}  // namespace weft
