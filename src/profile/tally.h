// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/profile.h"

#include <vector>

namespace weft {

// The costs of a step added up by module, operator and phase: fills
// `profile.whole`, `modules`, `ops` and `phases` from `nodes`, `live_bytes` and
// `lifetimes`.
void add_up(const Graph& graph, const Function& step, Profile& profile);

}  // namespace weft
