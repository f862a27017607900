// SPDX-License-Identifier: Apache-2.0
// What can be said of every entry without running ATen (test/ops proves the
// rest).
#include "base/text.h"
#include "ops/call.h"
#include "ops/example.h"
#include "ops/op_def.h"
#include "ops/split.h"

#include <gtest/gtest.h>
#include <set>

namespace weft {
namespace {

TEST(OpTable, HasEveryNameOnce) {
  std::set<std::string_view> names;
  for (const OpDef& def : all_ops()) {
    EXPECT_TRUE(names.insert(def.name).second) << def.name;
    EXPECT_EQ(find_op(def.name), &def);
  }
  EXPECT_EQ(find_op("aten.no_such_op"), nullptr);
}

TEST(OpTable, SaysOneThingOnce) {
  for (const OpDef& def : all_ops()) {
    EXPECT_TRUE(def.rule.empty() || def.rule_of == nullptr) << def.name;
    EXPECT_TRUE(def.backward.empty() || find_op(def.backward) != nullptr)
        << def.name << ": no entry for " << def.backward;
    EXPECT_NE(def.kind == OpKind::DataDependent, !def.examples.empty())
        << def.name;
  }
}

TEST(OpTable, ReadsEveryExample) {
  for (const OpDef& def : all_ops()) {
    for (std::string_view text : def.examples) {
      EXPECT_NO_THROW(parse_example(def, text)) << def.name << text;
    }
  }
}

Node call(std::string op, Function& function, std::vector<Dims> operands) {
  Node node;
  node.op = std::move(op);
  for (Dims& sizes : operands) {
    node.args.push_back({add_value(
        function,
        cat("x", function.values.size()),
        make_type(DType::F32, std::move(sizes)))});
  }
  return node;
}

TEST(OpTable, TreatsUnknownOpsAsWhole) {
  Function function;
  Node node = call("aten.no_such_op", function, {{8, 4}});
  add_node(function, node, {"y"}, {make_type(DType::F32, {16})});
  const Node& added = function.nodes.back();
  EXPECT_EQ(print(rule_of(function, added)), "1 1 -> _");
  EXPECT_EQ(flops_of(function, added), 32);
  EXPECT_EQ(scratch_bytes_of(function, added), 0);
  EXPECT_FALSE(is_view(added));
  EXPECT_FALSE(is_random(added));
  EXPECT_EQ(linear_of(added), Linear::No);
}

TEST(OpTable, CountsMultiplyAdds) {
  Function function;
  Node node = call("aten.mm", function, {{8, 4}, {4, 12}});
  EXPECT_EQ(flops_of(function, node), 2 * 8 * 4 * 12);
}

TEST(OpTable, NumbersAreNotPartialSums) {
  Function function;
  Node node = call("aten.add.Tensor", function, {{8}});
  EXPECT_EQ(linear_of(node), Linear::No);
  node = call("aten.add.Tensor", function, {{8}, {8}});
  EXPECT_EQ(linear_of(node), Linear::All);
  node = call("aten._to_copy", function, {{8}});
  EXPECT_EQ(linear_of(node), Linear::All);
  node.options = {{"dtype", {DType::I64}}};
  EXPECT_EQ(linear_of(node), Linear::No);
}

TEST(Split, LocalizesSizesAndOffsets) {
  Function function;
  Node node = call("aten.tril", function, {{8, 8}});
  add_node(function, node, {"y"}, {make_type(DType::F32, {8, 8})});
  const Node& whole = function.nodes.back();
  Rule rule = rule_of(function, whole);
  int row = find_factor(rule, "row");
  LocalCall local = local_call(
      *find_op("aten.tril"),
      function,
      whole,
      rule,
      split_pieces(rule, row, 4, 1));
  EXPECT_EQ(int_arg(local.node(), 1, 0), 2);
  EXPECT_EQ(operand_type(local.function, local.node(), 0).sizes, (Dims{2, 8}));
  EXPECT_EQ(result_type(local.function, local.node()).sizes, (Dims{2, 8}));
}

TEST(Split, SharesTheBias) {
  Function function;
  Node node = call("aten.addmm", function, {{12}, {8, 4}, {4, 12}});
  add_node(function, node, {"y"}, {make_type(DType::F32, {8, 12})});
  const Node& whole = function.nodes.back();
  Rule rule = rule_of(function, whole);
  Node local = localize(
      *find_op("aten.addmm"),
      function,
      whole,
      rule,
      split_pieces(rule, find_factor(rule, "k"), 4, 3));
  EXPECT_EQ(number_option(local, "beta", 1), 0.25);
}

TEST(Split, KeepsTheOrderOfStrides) {
  TensorType type = make_type(DType::F32, {8, 4}, {1, 8});
  EXPECT_EQ(with_sizes(type, {2, 4}), make_type(DType::F32, {2, 4}, {1, 2}));
  TensorType expanded = make_type(DType::F32, {8, 4}, {0, 1});
  EXPECT_EQ(
      with_sizes(expanded, {2, 4}), make_type(DType::F32, {2, 4}, {0, 1}));
}

TEST(Split, ReachesBeyondAPiece) {
  Window window = {.stride = 2, .before = 1, .after = 1};
  Piece range = touched(window, {.start = 4, .size = 2, .whole = 8}, 16);
  EXPECT_EQ(range.start, 7);
  EXPECT_EQ(range.size, 5);
}

}  // namespace
}  // namespace weft
