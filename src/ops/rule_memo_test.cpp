// SPDX-License-Identifier: Apache-2.0
#include "ops/rule_memo.h"

#include "ops/op_def.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// Two equal layers, and a third of another width.
constexpr const char* kGraph = R"(graph @layers

func @step {
  input %x : f32[8, 16] = batch "0"
  input %a : f32[16, 16] = parameter "a"
  input %b : f32[16, 16] = parameter "b"
  input %c : f32[16, 4] = parameter "c"
forward:
  %mm = aten.mm(%x, %a) : f32[8, 16]
  %drop = aten.bernoulli.p(%mm, 0.5, rng=1) : f32[8, 16]
  %mm.1 = aten.mm(%drop, %b) : f32[8, 16]
  %drop.1 = aten.bernoulli.p(%mm.1, 0.5, rng=2) : f32[8, 16]
  %mm.2 = aten.mm(%drop.1, %c) : f32[8, 4]
  %sum = aten.sum.dim_IntList(%mm.2, [0]) : f32[4]
  %sum.1 = aten.sum.dim_IntList(%mm.2, [1]) : f32[8]
  return extra "0" = %sum
  return extra "1" = %sum.1
}
)";

TEST(RuleMemo, EqualNodesHaveOneRuleWhateverTheyDraw) {
  const Graph graph = parse_graph(kGraph, "<text>");
  const Function& step = step_of(graph);
  RuleMemo memo;
  const std::vector<const Rule*> rules = memo.rules(step);
  ASSERT_EQ(rules.size(), step.nodes.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(*rules[i], rule_of(step, step.nodes[i])) << step.nodes[i].op;
  }
  EXPECT_EQ(rules[0], rules[2]);
  EXPECT_EQ(rules[1], rules[3]);
  EXPECT_NE(rules[0], rules[4]);
  EXPECT_NE(rules[5], rules[6]);
  EXPECT_EQ(memo.size(), 5);
  // Found again.
  EXPECT_EQ(memo.rules(step), rules);
  EXPECT_EQ(memo.size(), 5);
}

}  // namespace
}  // namespace weft
