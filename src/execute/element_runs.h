// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op_def.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

// Elements of a piece that follow one another in the whole value too.
struct ElementRun {
  // Row-major index in the whole value.
  uint64_t first = 0;
  // Row-major index in the piece.
  int64_t offset = 0;
  int64_t count = 0;
};

// Calls `visit` for the runs that make up the elements [begin, end) of the
// piece, in order.
void for_each_run(
    const std::vector<Piece>& piece,
    int64_t begin,
    int64_t end,
    const std::function<void(const ElementRun&)>& visit);

}  // namespace weft
