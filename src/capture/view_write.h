// SPDX-License-Identifier: Apache-2.0
// What a write through a view makes of the tensor that is viewed.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// One result of a view node, and what the node views. Offsets are in elements,
// from the start of the storage.
struct ViewPlace {
  const Node& made_by;
  int result = 0;
  const TensorType& type;
  int64_t offset = 0;
  const TensorType& parent_type;
  int64_t parent_offset = 0;
};

struct WriteBack {
  Node node;
  // Names its result.
  std::string stem;
};

// The view is all of its parent, in the same order.
bool is_whole(const ViewPlace& view);

// The node that gives the parent's content from `old`, what it was, and
// `value`, what the view holds now. Nothing for a view whose operator has no
// such node: it is then written by its place in the storage.
std::optional<WriteBack> write_back(
    const ViewPlace& view, ValueId old, ValueId value);

// The same for any region of a tensor that lies at `parent_offset` without
// another view between them: `parent_type` has the layout of the memory.
WriteBack write_region(const ViewPlace& view, ValueId old, ValueId value);

// A list of integers as an argument.
Arg dims_argument(const Dims& dims);

}  // namespace weft
