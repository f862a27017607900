// SPDX-License-Identifier: Apache-2.0
// Boxes of a tensor cut out and put together, as ordinary calls.
#pragma once

#include "lower/emitter.h"
#include "lower/halo.h"

#include <string>
#include <vector>

namespace weft {

// A box, and the value that holds just that, in row-major order.
struct BoxPart {
  Box box;
  ValueId value = ValueId::None;
};

// A view of a box within the part's.
ValueId cut_part(
    Emitter& emitter,
    const BoxPart& part,
    const Box& box,
    const std::string& base);

// The box from its parts: their sum where they overlap, `fill` where there is
// none. At least one part must be there.
ValueId join_parts(
    Emitter& emitter,
    const std::vector<BoxPart>& parts,
    const Box& box,
    double fill,
    const std::string& base);

// Values one after the other along a dim, in the memory format that they share.
ValueId join_row(
    Emitter& emitter,
    std::vector<ValueId> row,
    int dim,
    const std::string& base);

}  // namespace weft
