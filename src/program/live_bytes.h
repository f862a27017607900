// SPDX-License-Identifier: Apache-2.0
// How much memory a rank needs for its block.
#pragma once

#include "program/program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Every storage begins at a multiple of this.
constexpr int64_t kAlignmentBytes = 64;
int64_t aligned(int64_t bytes);

// The bytes of all storages that are live after each instruction, inputs
// included; scratch memory inside a call, what lies on the host, and gaps
// between storages are not.
std::vector<int64_t> live_bytes(const Block& block);

// What the arena of a placed block must hold: the end of its last storage or
// scratch.
int64_t arena_bytes(const Block& block);
// What stays from step to step, each storage aligned.
int64_t resident_bytes(const Block& block);
// The sum of both: the peak of a rank that runs the block.
int64_t peak_bytes(const Block& block);
// Of the rank that has the highest.
int64_t peak_bytes(const Program& program);

// Every rank's peak is at most `budget_bytes`. Throws UserError that begins
// with `where`, which names the plan, and says what would do.
void verify_memory(
    const Program& program, const std::string& where, int64_t budget_bytes);

// Bytes of what a transfer makes: of its results.
int64_t transfer_bytes(const Block& block, const Start& start);

}  // namespace weft
