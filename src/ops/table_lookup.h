// SPDX-License-Identifier: Apache-2.0
// Nodes that take elements of a tensor by numbers that another one holds.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>

namespace weft {

struct TableLookup {
  ValueId table = ValueId::None;
  // Of the table: the numbers count along it.
  int64_t dim = 0;
  ValueId numbers = ValueId::None;
  // A number that stands for no element.
  std::optional<int64_t> ignored;
};

// None for a node that looks nothing up, or whose numbers may be negative.
std::optional<TableLookup> table_lookup_of(const Node& node);

// Where the elements of a value come from, through views and copies: a value
// that holds the same numbers.
ValueId copied_from(const Function& function, ValueId value);

}  // namespace weft
