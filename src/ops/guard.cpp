// SPDX-License-Identifier: Apache-2.0
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

bool is_guard(const Node& node) { return node.op == "weft.guard"; }

void add_guard_ops(OpTable& ops) {
  // (value, expected) -> value. The model read this scalar while it was
  // recorded and went on as it said; a run that sees another value must stop.
  ops.push_back({
      .name = "weft.guard",
      .rule = "... -> ...",
      .types =
          [](const Function& function, const Node& node) {
            return std::vector{type_arg(function, node, 0)};
          },
      .examples = {"(f32[], 0.0)"},
  });
}

}  // namespace weft
