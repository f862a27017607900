// SPDX-License-Identifier: Apache-2.0
#include "ops/crossing.h"

#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {
namespace {

constexpr std::string_view kCross = "weft.cross";

}  // namespace

std::optional<Crossing> crossing_of(const Node& node) {
  if (node.op != kCross) {
    return std::nullopt;
  }
  return Crossing{int_arg(node, 1, 0), int_arg(node, 2, 0)};
}

Node crossing_node(ValueId value, const Crossing& crossing, Phase phase) {
  Node node;
  node.op = kCross;
  node.phase = phase;
  node.args = {{value}, {crossing.from_stage}, {crossing.to_stage}};
  return node;
}

void add_crossing_ops(OpTable& ops) {
  ops.push_back({
      .name = kCross,
      .rule = "... -> ...",
      .types =
          [](const Function& function, const Node& node) {
            return std::vector{like(type_arg(function, node, 0))};
          },
      .examples = {"(f32[8, 4], 0, 1)"},
  });
}

}  // namespace weft
