// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: the transformed dims stay whole.
#include <algorithm>
#include <utility>

#include "ops/call.h"
#include "ops/families.h"
#include "ops/words.h"

namespace weft {
namespace {

// The last dim named loses its redundant half (or gets it back).
Dims transformed_sizes(const Function& function, const Node& node) {
  Dims sizes = operand_type(function, node, 0).sizes;
  auto last = static_cast<size_t>(
      wrap_dim(dims_arg(node, 1).back(), sizes.size()));
  if (node.op == "aten._fft_r2c" && bool_arg(node, 3, true)) {
    sizes[last] = sizes[last] / 2 + 1;
  } else if (node.op == "aten._fft_c2r") {
    sizes[last] = int_arg(node, 3, 0);
  }
  return sizes;
}

Rule fft_rule(const Function& function, const Node& node) {
  const Dims& before = operand_type(function, node, 0).sizes;
  Dims after = transformed_sizes(function, node);
  Words from = dim_words(before.size());
  Words to = from;
  for (int64_t named : dims_arg(node, 1)) {
    auto dim = static_cast<size_t>(wrap_dim(named, before.size()));
    from[dim] = cat("from", dim, "!");
    to[dim] = cat("to", dim, "=", after[dim], "!");
  }
  return rule_from_text(cat(term(from), " -> ", term(to)), function, node);
}

OpDef fft(std::string_view name, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = fft_rule,
      .linear = Linear::All,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_fft_ops(OpTable& ops) {
  ops.push_back(
      fft("aten._fft_r2c",
          {"(f32[4, 8], [1], 0, true)",
           "(f32[4, 8, 4, 6], [2, 3], 0, true)",
           "(f32[8, 4], [0], 0, true)"}));
  ops.push_back(
      fft("aten._fft_c2r",
          {"(c64[4, 5], [1], 0, 8)", "(c64[5, 4], [0], 0, 8)"}));
  ops.push_back(
      fft("aten._fft_c2c",
          {"(c64[4, 8], [1], 0, true)",
           "(c64[4, 6, 8], [1, 2], 0, false)",
           "(c64[8, 4], [0], 0, true)"}));
}

}  // namespace weft
