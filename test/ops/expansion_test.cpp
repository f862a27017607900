// SPDX-License-Identifier: Apache-2.0
// Expansions on elements that examples do not draw.
#include "expansion.h"

#include "aten/call.h"
#include "aten/types.h"
#include "ops/example.h"
#include "pieces.h"

#include <gtest/gtest.h>
#include <limits>

namespace weft {
namespace {

// A query that the mask keeps from all keys.
TEST(Expansion, AttendsToNothing) {
  const OpDef& def =
      *find_op("aten._scaled_dot_product_flash_attention_for_cpu");
  Example example = parse_example(
      def,
      "(f64[1, 2, 4, 8], f64[1, 2, 4, 8], f64[1, 2, 4, 8], "
      "attn_mask=f64[4, 4])");
  ValueTensors operands = draw_operands(example);
  operands[3][1].fill_(-std::numeric_limits<double>::infinity());
  operands[3][2][1].fill_(-std::numeric_limits<double>::infinity());
  const ValueTensors expected = AtenCall(example.node)(operands);
  add_node(
      example.function,
      example.node,
      {"output", "logsumexp"},
      {type_of(expected[0]), type_of(expected[1])});
  const Node node = example.function.nodes.back();
  const auto expansion = expand_node(def, example.function, node);
  ASSERT_TRUE(expansion.has_value());
  const Rule rule = rule_of(example.function, node);
  const int keys = find_factor(rule, "t");
  const ValueTensors whole = run_expanded(*expansion, node, operands);
  const ValueTensors split =
      run_expanded_split(*expansion, node, rule, {keys, 2}, operands);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(difference(whole[i], expected[i]), "");
    EXPECT_EQ(difference(split[i], expected[i]), "");
  }
}

}  // namespace
}  // namespace weft
