// SPDX-License-Identifier: Apache-2.0
// How long ago a call's operands were used, in bytes: on a device with caches
// they are then as slow as all that was moved since.
#pragma once

#include "profile/node_costs.h"
#include "program/program.h"
#include "simulate/costs.h"

#include <vector>

namespace weft {

// Whether a device reads little faster than much.
bool has_caches(const Device& device);

// For every instruction of the block what its call reads, and since when. The
// step goes on from one of its kind: what it reads first was used last then.
// `costs` are those of the block's nodes.
std::vector<std::vector<Use>> uses_of(
    const Block& block, const std::vector<NodeCosts>& costs);

}  // namespace weft
