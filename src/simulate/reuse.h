// SPDX-License-Identifier: Apache-2.0
// How long ago the memory of a call's operands and results was used, in bytes:
// on a device with caches it is then as slow as all that was moved since.
#pragma once

#include "profile/call_seconds.h"
#include "profile/node_costs.h"
#include "program/program.h"

#include <vector>

namespace weft {

// Whether a device reads little faster than much.
bool has_caches(const Device& device);

// For every instruction of the block what its call reads and writes, and since
// when. The step goes on from one of its kind: what it reads first was used
// last then.
// `costs` are those of the block's nodes.
std::vector<std::vector<Use>> uses_of(
    const Block& block, const std::vector<NodeCosts>& costs);

}  // namespace weft
