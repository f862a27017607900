// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program/program.h"

#include <cstdint>
#include <vector>

namespace weft {

// The bytes of all storages that are live after each instruction, inputs
// included; scratch memory inside a call is not.
std::vector<int64_t> live_bytes(const Block& block);

}  // namespace weft
