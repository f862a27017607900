// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <vector>

namespace weft {

// out[i] = terms[0][i] + terms[1][i] + ..., in this order; 16 bit floats are
// added up in 32 bits and rounded once. `out` may be one of the terms.
void add_up(
    const std::vector<std::byte*>& terms,
    std::byte* out,
    size_t count,
    c10::ScalarType type);

}  // namespace weft
