// SPDX-License-Identifier: Apache-2.0
// The collectives of a block: what passes that move them must agree on across
// ranks.
#pragma once

#include "program/program.h"

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

// Where they are started, in order.
std::vector<size_t> collectives(const Block& block);

// Whether all blocks start the same collectives, by the names of their results,
// in the same order. So it is whenever blocks differ only in the sizes of
// pieces.
bool start_the_same(const std::vector<Block>& blocks);

}  // namespace weft
