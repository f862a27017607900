// SPDX-License-Identifier: Apache-2.0
// Split lookups of indices that examples do not draw: negative ones, and those
// that count for nothing.
#include "aten/call.h"
#include "base/text.h"
#include "expansion.h"
#include "ops/example.h"
#include "pieces.h"

#include <ATen/ops/tensor.h>

#include <gtest/gtest.h>
#include <utility>

namespace weft {
namespace {

struct Case {
  std::string_view op;
  std::string_view example;
  std::vector<int64_t> index;
};

void PrintTo(const Case& it, std::ostream* out) { *out << it.op << it.example; }

class SplitLookup : public testing::TestWithParam<Case> {};

TEST_P(SplitLookup, AddsUpToTheWhole) {
  const OpDef& def = *find_op(GetParam().op);
  Example example = parse_example(def, GetParam().example);
  ValueTensors whole = draw_operands(example);
  at::Tensor& index = whole[static_cast<size_t>(def.lookup_operand)];
  index = at::tensor(GetParam().index).reshape(index.sizes());
  const ValueTensors expected = AtenCall(example.node)(whole);
  std::vector<TensorType> types;
  std::vector<std::string> names;
  for (size_t i = 0; i < expected.size(); ++i) {
    names.push_back(cat("result", i));
    types.push_back(make_type(DType::F32, expected[i].sizes().vec()));
  }
  add_node(example.function, example.node, names, types);
  const Node node = example.function.nodes.back();
  const Rule rule = rule_of(example.function, node);
  int factor = 0;
  while (rule.factors[static_cast<size_t>(factor)].kind != FactorKind::Lookup) {
    ++factor;
  }
  std::vector<ValueTensors> parts;
  std::vector<Pieces> pieces;
  for (int64_t part = 0; part < 4; ++part) {
    pieces.push_back(split_pieces(rule, factor, 4, part));
    const LocalCall call =
        local_call(def, example.function, node, rule, pieces.back());
    ValueTensors values(call.function.values.size());
    for (size_t i = 0; i < call.kept.size(); ++i) {
      const auto operand = static_cast<int>(call.kept[i]);
      values[i] =
          cut(whole[call.kept[i]], rule, {false, operand}, pieces.back());
    }
    run_nodes(call.function, values);
    parts.emplace_back();
    for (const ValueId id : call.results) {
      parts.back().push_back(values[static_cast<size_t>(id)]);
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ValueTensors of_result;
    for (const ValueTensors& part : parts) {
      of_result.push_back(part[i]);
    }
    const at::Tensor joined = join_parts(
        of_result,
        rule,
        static_cast<int>(i),
        factor,
        pieces,
        expected[i].sizes().vec());
    EXPECT_EQ(difference(joined, expected[i]), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lookup,
    SplitLookup,
    testing::Values(
        Case{"aten.index.Tensor", "(f32[8, 4], [i64[4]])", {-1, 0, -8, 5}},
        Case{
            "aten.index_put",
            "(f32[8, 4], [i64[4]], f32[4, 4])",
            {-1, 0, -7, 7}},
        // Ignored classes inside and outside of the range, and of other pieces.
        Case{
            "aten.nll_loss_forward",
            "(f32[6, 8], i64[6], f32[8], 2, -100)",
            {-100, 0, 7, 3, -100, 2}},
        Case{
            "aten.nll_loss_forward",
            "(f32[6, 8], i64[6], none, 0, 3)",
            {3, 0, 7, 3, 5, 1}},
        Case{
            "aten.nll_loss_backward",
            "(f32[], f32[6, 8], i64[6], f32[8], 1, -100, f32[]>0)",
            {-100, 0, 7, 3, -100, 1}},
        Case{
            "aten.nll_loss2d_forward",
            "(f32[1, 8, 2, 2], i64[1, 2, 2], none, 2, 255)",
            {255, 0, 7, 3}},
        Case{
            "aten.embedding_dense_backward",
            "(f32[6, 4], i64[6], 8, 3, false)",
            {3, 0, 7, 3, 5, 1}}));

}  // namespace
}  // namespace weft
