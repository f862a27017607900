// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/profile.h"

#include <cstdint>
#include <vector>

namespace weft {

// What each node costs by itself. A node reads each operand once: the elements
// its type reaches, or of a table that is looked up, as much as comes out. It
// writes its results. A view moves nothing. `signatures` are those of the
// nodes.
std::vector<NodeCosts> node_costs(
    const Function& function, const std::vector<int32_t>& signatures);

}  // namespace weft
