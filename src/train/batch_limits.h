// SPDX-License-Identifier: Apache-2.0
// Numbers of a batch that look up rows of a table. Where ranks share the table,
// each has some rows and none of them would miss a number that no rank has.
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct BatchLimit {
  // Of the batch input.
  std::string key;
  // Its numbers are 0 to size - 1, or `ignored`.
  int64_t size = 0;
  std::optional<int64_t> ignored;
  // The name of what is looked up in.
  std::string table;
};

// Of the graph's step.
std::vector<BatchLimit> batch_limits(const Graph& graph);

// Throws UserError that names the number, the key and the size.
void verify(const BatchLimit& limit, const at::Tensor& numbers);

}  // namespace weft
