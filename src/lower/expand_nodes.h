// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lower/pass.h"

#include <cstddef>
#include <set>

namespace weft {

// Puts what these nodes of the step expand to (OpDef::expand) in their place.
// Those that do not expand are remembered in `unexpanded`.
void expand_nodes(Lowering& lowering, const std::set<size_t>& chosen);

}  // namespace weft
