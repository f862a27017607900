// SPDX-License-Identifier: Apache-2.0
// Proves one entry of the op table on its examples: whatever the entry says is
// compared with what ATen does on real tensors.
#pragma once

#include "ops/op_def.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Proof {
  int64_t examples = 0;
  // One factor of one example, cut one number of ways.
  int64_t splits = 0;
  // Two factors cut at once.
  int64_t double_splits = 0;
  // Examples whose expansion was run, and one factor of one such, cut.
  int64_t expansions = 0;
  int64_t expanded_splits = 0;
  // Result types compared with ATen's: given by the entry, or by PyTorch's meta
  // kernel.
  int64_t types = 0;
  int64_t meta_types = 0;
  int64_t scratch = 0;
  int64_t flops = 0;
  int64_t linear = 0;
  // Examples of which only the entry itself was checked: PyTorch has no such
  // operator, or not for the CPU.
  int64_t not_run = 0;
  std::vector<std::string> failures;
};

// Adds what was found to `proof`.
void prove(const OpDef& def, Proof& proof);

}  // namespace weft
