// SPDX-License-Identifier: Apache-2.0
// The example calls of the op table.
#pragma once

#include "graph/graph.h"
#include "ops/op_def.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

// What an example says about the elements of one operand.
struct Draw {
  // Integers are below this; -1 when it does not say.
  int64_t below = -1;
  bool positive = false;
  // Integers ascend to this, which is the last of them; -1: in any order.
  int64_t ascending_to = -1;
};

struct Example {
  // The operands as inputs, and nothing else.
  Function function;
  // The call, without results.
  Node node;
  // One an operand.
  std::vector<Draw> draws;
};

// Reads an example of `def`. Throws UserError with line and column.
Example parse_example(const OpDef& def, std::string_view text);

}  // namespace weft
