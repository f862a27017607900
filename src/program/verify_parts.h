// SPDX-License-Identifier: Apache-2.0
// What verify(Program) looks at, one idea a file.
#pragma once

#include "program/program.h"

namespace weft {

// Every mesh is one, together with the parts in time, and ranks can be counted.
// Throws UserError.
void verify_meshes(const Program& program);

// Storages that live at the same time lie apart, and scratch apart from both.
// A block that is not placed passes. Throws UserError.
void verify_places(const Program& program, const Block& block);

// Members of a group start the same collectives in the same order, sends and
// receives pair up, and nobody waits for ever. Throws UserError.
void verify_meetings(const Program& program);

// "program @p, block @b, instruction 3 (label): ", for messages; `at` may be
// the end.
std::string place_in(const Program& program, const Block& block, size_t at);

}  // namespace weft
