// SPDX-License-Identifier: Apache-2.0
// The collectives of a block: what passes that move them must agree on across
// ranks.
#pragma once

#include "lower/pass.h"
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

// Runs the pass on the blocks of one stage of the pipeline after the other:
// ranks of different stages have no collective in common.
void run_by_stage(Lowering& lowering, void (*pass)(Lowering&));

}  // namespace weft
