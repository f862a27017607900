// SPDX-License-Identifier: Apache-2.0
// Rows that are brought together by expert, sample by sample: what
// lower/group_rows.cpp makes of a step that sorts the tokens of the whole batch
// by their expert. e = groups of experts, g = experts of a group, b = samples,
// m = choices that the tokens of a sample make, r = rows that a group has room
// for in a sample. Groups of experts can be on different ranks, and so can
// samples; rows that are not filled are zero, or are not looked at.
#include "base/error.h"
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/words.h"

namespace weft {
namespace {

std::string words_from(const TensorType& type, size_t first) {
  std::string words;
  for (size_t d = first; d < type.sizes.size(); ++d) {
    words += cat(" w", d - first);
  }
  return words;
}

// (ids, experts of a group, groups, seats, first group)
Rule expert_rows_rule(const Function& function, const Node& node) {
  return rule_from_text(
      cat("b m! -> e=",
          int_arg(node, 2, 1),
          " b r=",
          int_arg(node, 3, 1),
          "!, e b g=",
          int_arg(node, 1, 1),
          "!"),
      function,
      node);
}

std::vector<TensorType> expert_rows_types(
    const Function& function, const Node& node) {
  const int64_t samples = type_arg(function, node, 0).sizes.front();
  const int64_t groups = int_arg(node, 2, 1);
  return {
      make_type(DType::I64, {groups, samples, int_arg(node, 3, 1)}),
      make_type(DType::I64, {groups, samples, int_arg(node, 1, 1)})};
}

void localize_expert_rows(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  const auto groups =
      static_cast<size_t>(find_factor(expert_rows_rule(function, node), "e"));
  fill_args(
      node, {{None()}, {None()}, {int64_t{1}}, {int64_t{1}}, {int64_t{0}}});
  set_arg(node, 4, {int_arg(node, 4, 0) + pieces[groups].start});
  set_arg(node, 2, {pieces[groups].size});
}

// (values, rows)
Rule take_rows_rule(const Function& function, const Node& node) {
  const std::string others = words_from(type_arg(function, node, 0), 2);
  return rule_from_text(
      cat("b s!", others, ", e b r! -> (e b r!)", others), function, node);
}

std::vector<TensorType> take_rows_types(
    const Function& function, const Node& node) {
  const TensorType& values = type_arg(function, node, 0);
  Dims sizes = {element_count(type_arg(function, node, 1))};
  sizes.insert(sizes.end(), values.sizes.begin() + 2, values.sizes.end());
  return {make_type(values.dtype, std::move(sizes))};
}

// (values, rows, how many rows a sample has)
Rule add_rows_rule(const Function& function, const Node& node) {
  const std::string others = words_from(type_arg(function, node, 0), 1);
  return rule_from_text(
      cat("(e b r!)",
          others,
          ", e b r! -> b s=",
          int_arg(node, 2, 1),
          "!",
          others),
      function,
      node);
}

std::vector<TensorType> add_rows_types(
    const Function& function, const Node& node) {
  const TensorType& values = type_arg(function, node, 0);
  Dims sizes = {type_arg(function, node, 1).sizes.at(1), int_arg(node, 2, 1)};
  sizes.insert(sizes.end(), values.sizes.begin() + 1, values.sizes.end());
  return {make_type(values.dtype, std::move(sizes))};
}

bool meets_matrices(const Function& function, const Node& node) {
  return type_arg(function, node, 1).sizes.size() == 3;
}

// (a, b, ends, filled): where each expert's rows end; `filled` is how many rows
// of a group are expected to be in use, for the account of flops alone.
Rule rows_product_rule(const Function& function, const Node& node) {
  return rule_from_text(
      meets_matrices(function, node)
          ? "(e b r!) k, (e g!) k n, e b g! -> (e b r!) n"
          : "m (e b r!), (e b r!) n, e b g! -> (e g!) m n",
      function,
      node);
}

std::vector<TensorType> rows_product_types(
    const Function& function, const Node& node) {
  const TensorType& a = type_arg(function, node, 0);
  const TensorType& b = type_arg(function, node, 1);
  const Dims& ends = type_arg(function, node, 2).sizes;
  return {make_type(
      a.dtype,
      meets_matrices(function, node)
          ? Dims{a.sizes[0], b.sizes[2]}
          : Dims{ends[0] * ends[2], a.sizes[0], b.sizes[1]})};
}

Products rows_products(const Function& function, const Node& node) {
  const Dims& ends = type_arg(function, node, 2).sizes;
  const int64_t groups = ends[0] * ends[2];
  const int64_t filled = ends[0] * ends[1] * int_arg(node, 3, 0) / groups;
  const Dims& a = type_arg(function, node, 0).sizes;
  const int64_t columns = type_arg(function, node, 1).sizes.back();
  return meets_matrices(function, node)
             ? Products{groups, filled, columns, a[1]}
             : Products{groups, a[0], columns, filled};
}

int64_t rows_product_flops(const Function& function, const Node& node) {
  const Products all = rows_products(function, node);
  return 2 * all.count * all.rows * all.columns * all.depth;
}

}  // namespace

void add_expert_rows_ops(OpTable& ops) {
  // (ids, experts of a group, groups, seats, first group) -> for each group and
  // sample the choices that fall to its experts, expert by expert, -1 where
  // there are no more; and after how many rows each expert's end.
  ops.push_back({
      .name = "weft.expert_rows",
      .rule_of = expert_rows_rule,
      .types = expert_rows_types,
      .localize = localize_expert_rows,
      .examples = {"(i64[4, 8]<8, 2, 4, 8, 0)"},
  });
  // (values, rows) -> these rows of each sample; zeros for -1.
  ops.push_back({
      .name = "weft.take_rows",
      .rule_of = take_rows_rule,
      .linear = Linear::First,
      .flops = count_result,
      .types = take_rows_types,
      .backward = "weft.add_rows",
      .examples =
          {"(f32[4, 8, 4], i64[4, 4, 8]<8)", "(f32[4, 8], i64[4, 4, 8]<8)"},
  });
  // (values, rows, count) -> values added up where they belong, for each sample
  // `count` rows.
  ops.push_back({
      .name = "weft.add_rows",
      .rule_of = add_rows_rule,
      .linear = Linear::First,
      .types = add_rows_types,
      .backward = "weft.take_rows",
      .examples = {"(f32[128, 4], i64[4, 4, 8]<8, 8)"},
  });
  // (a, b, ends, filled) -> each expert's rows times its matrix; or, of rows as
  // columns times rows, a matrix for each expert.
  ops.push_back({
      .name = "weft.grouped_mm",
      .rule_of = rows_product_rule,
      .linear = Linear::First,
      .flops = rows_product_flops,
      .products = rows_products,
      .types = rows_product_types,
      .examples =
          {"(f32[128, 4], f32[8, 4, 12], i64[4, 4, 2]<8, 8)",
           "(f32[12, 128], f32[128, 4], i64[4, 4, 2]<8, 8)"},
  });
}

}  // namespace weft
