// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// The rows of an entry of the batch from `start` on, counted in the whole
// batch, that one rank was given and another works on.
struct RowTransfer {
  std::string key;
  int64_t from = 0;
  int64_t to = 0;
  int64_t start = 0;
  int64_t size = 0;

  bool operator==(const RowTransfer&) const = default;
};

}  // namespace weft
