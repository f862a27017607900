// SPDX-License-Identifier: Apache-2.0
// Products of matrices. b = batch, m and n = rows and columns of the result,
// k = what is summed over.
#include "base/error.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/view_types.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weft {
namespace {

// A multiply-add for every combination of the factors.
int64_t multiply_adds(const Function& function, const Node& node) {
  int64_t count = 2;
  for (const Factor& factor : rule_of(function, node).factors) {
    count *= factor.size;
  }
  return count;
}

// The last `ndim` words of "b m n": the term of an operand that is broadcast.
std::string last_dims(const std::vector<std::string>& words, size_t ndim) {
  WEFT_CHECK(ndim <= words.size(), "more dims than the result");
  if (ndim == 0) {
    return "()";
  }
  auto from = words.end() - static_cast<std::ptrdiff_t>(ndim);
  return join({from, words.end()}, " ");
}

// beta * self + the product. `result` are the words of the result, `product`
// the terms of what is multiplied.
RuleFunction added_product(
    const std::string& result, const std::string& product) {
  return [result, product](const Function& function, const Node& node) {
    size_t ndim = operand_type(function, node, 0).sizes.size();
    std::string self = last_dims(split(result, ' '), ndim);
    return rule_from_text(
        cat(self, ", ", product, " -> ", result), function, node);
  };
}

// Every rank adds its share of self to its partial product, so that the sum has
// it once. Integers cannot be shared: the first rank adds all of it.
void share_beta(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  Rule rule = rule_of(function, node);
  DType dtype = operand_type(function, node, 0).dtype;
  bool divisible = is_floating(dtype) || is_complex(dtype);
  double share = 1;
  bool first = true;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (is_summed(rule, static_cast<int>(i), 0)) {
      share *= static_cast<double>(pieces[i].size) /
               static_cast<double>(pieces[i].whole);
      first = first && pieces[i].start == 0;
    }
  }
  if (share == 1 || (!divisible && first)) {
    return;
  }
  Arg beta = {int64_t{0}};
  if (divisible) {
    beta = {number_option(node, "beta", 1) * share};
  }
  if (find_option(node, "beta") == nullptr) {
    node.options.insert(node.options.begin(), {"beta", beta});
  } else {
    set_option(node, "beta", beta);
  }
}

// Of the last two operands: rows of the one, columns of the other.
std::vector<TensorType> product_types(
    const Function& function, const Node& node) {
  const std::vector<ValueId> all = operands(node);
  const TensorType& a = function[all.at(all.size() - 2)].type;
  const TensorType& b = function[all.back()].type;
  return {make_type(a.dtype, {a.sizes.at(a.sizes.size() - 2), b.sizes.back()})};
}

// The same in each item of a batch.
std::vector<TensorType> batched_product_types(
    const Function& function, const Node& node) {
  TensorType type = product_types(function, node).front();
  const TensorType& b = function[operands(node).back()].type;
  return {make_type(type.dtype, {b.sizes[0], type.sizes[0], type.sizes[1]})};
}

std::vector<TensorType> int_mm_types(
    const Function& function, const Node& node) {
  return {make_type(
      DType::I32,
      {operand_type(function, node, 0).sizes.at(0),
       operand_type(function, node, 1).sizes.at(1)})};
}

std::vector<TensorType> dot_types(const Function& function, const Node& node) {
  return {make_type(operand_type(function, node, 0).dtype, {})};
}

constexpr std::string_view kBatches = "... m k, ... k n -> ... m n";

std::vector<TensorType> matmul_types(
    const Function& function, const Node& node) {
  return {make_type(
      operand_type(function, node, 0).dtype,
      result_sizes(rule_from_text(kBatches, function, node), 0))};
}

// All batches as one dim: an operand that is broadcast, or whose batches do not
// lie so, is copied.
int64_t matmul_scratch(const Function& function, const Node& node) {
  const Dims& result = result_type(function, node).sizes;
  int64_t bytes = 0;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const TensorType& type = operand_type(function, node, i);
    const size_t ndim = type.sizes.size();
    int64_t batches = 1;
    bool broadcast = false;
    for (size_t d = 0; d + 2 < ndim; ++d) {
      batches *= result[d];
      broadcast = broadcast || type.sizes[d] != result[d];
    }
    const int64_t rows = type.sizes[ndim - 2];
    const int64_t columns = type.sizes[ndim - 1];
    if (broadcast || !viewed(type, {batches, rows, columns})) {
      bytes += batches * rows * columns * element_bytes(type.dtype);
    }
  }
  return bytes;
}

Rule linear_rule(const Function& function, const Node& node) {
  bool has_bias = find_arg(node, 2) != nullptr;
  return rule_from_text(
      has_bias ? "... k!, n k!, n -> ... n" : "... k, n k -> ... n",
      function,
      node);
}

// `offs` cuts a dim into groups: the rows, the columns or what is summed over.
Rule grouped_rule(const Function& function, const Node& node) {
  bool batched = type_arg(function, node, 0).sizes.size() == 3;
  bool batched2 = type_arg(function, node, 1).sizes.size() == 3;
  std::string_view text = batched && batched2 ? "g m k, g k n -> g m n"
                          : batched2          ? "m! k, g! k n, g! -> m! n"
                          : batched           ? "g! m k, k n!, g! -> m n!"
                                              : "m k!, k! n, g! -> g! m n";
  return rule_from_text(text, function, node);
}

// As PyTorch's CPU kernel, which takes f32, f16 and bf16; its meta kernel only
// bf16. Rows begin at multiples of 16 bytes; those after the last group are not
// written.
std::vector<TensorType> grouped_types(
    const Function& function, const Node& node) {
  const TensorType& a = type_arg(function, node, 0);
  const Arg* named = find_arg(node, 4);
  const DType dtype = named == nullptr ? a.dtype : std::get<DType>(named->data);
  Dims sizes = result_sizes(grouped_rule(function, node), 0);
  const int64_t aligned = 16 / element_bytes(dtype);
  const int64_t row = (sizes.back() + aligned - 1) / aligned * aligned;
  Dims strides = {row, 1};
  if (sizes.size() == 3) {
    strides.insert(strides.begin(), sizes[1] * row);
  }
  return {make_type(dtype, std::move(sizes), std::move(strides))};
}

// Every row meets one of the groups.
Products grouped_products(const Function& function, const Node& node) {
  const Dims& a = type_arg(function, node, 0).sizes;
  const Dims& b = type_arg(function, node, 1).sizes;
  if (a.size() == 3 && b.size() == 3) {
    return {a[0], a[1], b[2], a[2]};
  }
  const int64_t groups =
      std::max<int64_t>(type_arg(function, node, 2).sizes.at(0), 1);
  Products all = {groups, a[a.size() - 2], b.back(), a.back()};
  int64_t& cut = b.size() == 3   ? all.rows
                 : a.size() == 3 ? all.columns
                                 : all.depth;
  cut = std::max<int64_t>(cut / groups, 1);
  return all;
}

int64_t grouped_flops(const Function& function, const Node& node) {
  const Dims& a = type_arg(function, node, 0).sizes;
  const Dims& b = type_arg(function, node, 1).sizes;
  int64_t groups = a.size() == 3 && b.size() == 3 ? a[0] : 1;
  return 2 * groups * a[a.size() - 2] * a.back() * b.back();
}

}  // namespace

void add_matmul_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.mm",
      .rule = "m k, k n -> m n",
      .linear = Linear::Each,
      .flops = multiply_adds,
      .types = product_types,
      .examples =
          {"(f32[8, 4], f32[4, 12])", "(f32[8, 4]{1, 8}, f32[4, 12]{1, 4})"},
  });
  ops.push_back({
      .name = "aten.addmm",
      .rule_of = added_product("m n", "m k, k n"),
      .flops = multiply_adds,
      .types = product_types,
      .localize = share_beta,
      .examples =
          {"(f32[12], f32[8, 4], f32[4, 12])",
           "(f32[8, 12], f32[8, 4], f32[4, 12], beta=2, alpha=0.5)",
           "(f32[8, 1], f32[8, 4], f32[4, 12])",
           "(i64[12], i64[8, 4], i64[4, 12])"},
  });
  ops.push_back({
      .name = "aten._addmm_activation",
      .rule_of = added_product("m n", "m k!, k! n"),
      .flops = multiply_adds,
      .examples =
          {"(f32[12], f32[8, 4], f32[4, 12])",
           "(f32[12], f32[8, 4], f32[4, 12], use_gelu=true)"},
  });
  ops.push_back({
      .name = "aten.bmm",
      .rule = "b m k, b k n -> b m n",
      .linear = Linear::Each,
      .flops = multiply_adds,
      .types = batched_product_types,
      .examples =
          {"(f32[4, 8, 4], f32[4, 4, 12])",
           "(f32[4, 8, 4], f32[4, 4, 12]{48, 1, 4})"},
  });
  // Never captured: PyTorch makes other products of it. Expansions use it, for
  // it keeps batches of several dims apart. Operands have as many dims.
  ops.push_back({
      .name = "aten.matmul",
      .rule = kBatches,
      .linear = Linear::Each,
      .flops = multiply_adds,
      .scratch_bytes = matmul_scratch,
      .types = matmul_types,
      .examples =
          {"(f32[4, 4, 8, 4], f32[4, 4, 4, 12])",
           "(f32[4, 4, 2, 8, 4], f32[4, 4, 1, 4, 12]{192, 48, 48, 1, 4})"},
  });
  ops.push_back({
      .name = "aten.baddbmm",
      .rule_of = added_product("b m n", "b m k, b k n"),
      .flops = multiply_adds,
      .types = batched_product_types,
      .localize = share_beta,
      .examples =
          {"(f32[4, 8, 12], f32[4, 8, 4], f32[4, 4, 12])",
           "(f32[1, 12], f32[4, 8, 4], f32[4, 4, 12], beta=0.5)"},
  });
  ops.push_back({
      .name = "aten.addbmm",
      .rule_of = added_product("m n", "b m k, b k n"),
      .flops = multiply_adds,
      .types = product_types,
      .localize = share_beta,
      .examples =
          {"(f32[8, 12], f32[4, 8, 4], f32[4, 4, 12])",
           "(f32[12], f32[4, 8, 4], f32[4, 4, 12])"},
  });
  ops.push_back({
      .name = "aten.mv",
      .rule = "m k, k -> m",
      .linear = Linear::Each,
      .flops = multiply_adds,
      .examples = {"(f32[8, 4], f32[4])"},
  });
  ops.push_back({
      .name = "aten.addmv",
      .rule_of = added_product("m", "m k, k"),
      .flops = multiply_adds,
      .localize = share_beta,
      .examples = {"(f32[8], f32[8, 4], f32[4])"},
  });
  add_ops(
      ops,
      {"aten.dot", "aten.vdot"},
      {
          .rule = "k, k -> ()",
          .linear = Linear::Each,
          .flops = multiply_adds,
          .types = dot_types,
          .examples = {"(f32[8], f32[8])"},
      });
  ops.push_back({
      .name = "aten.outer",
      .rule = "m, n -> m n",
      .linear = Linear::Each,
      .examples = {"(f32[8], f32[4])"},
  });
  ops.push_back({
      .name = "aten.addr",
      .rule_of = added_product("m n", "m, n"),
      .flops = multiply_adds,
      .examples = {"(f32[8, 4], f32[8], f32[4], beta=0.5)"},
  });
  ops.push_back({
      .name = "aten.linear",
      .rule_of = linear_rule,
      .flops = multiply_adds,
      .examples =
          {"(f32[4, 8, 4], f32[12, 4])", "(f32[8, 4], f32[12, 4], f32[12])"},
  });
  ops.push_back({
      .name = "aten._int_mm",
      .rule = "m k, k n -> m n",
      .linear = Linear::Each,
      .flops = multiply_adds,
      .types = int_mm_types,
      .examples = {"(i8[8, 4], i8[4, 12])", "(i8[8, 4], i8[4, 12]{1, 4})"},
  });
  ops.push_back({
      .name = "aten._grouped_mm",
      .rule_of = grouped_rule,
      .linear = Linear::Each,
      .flops = grouped_flops,
      .products = grouped_products,
      .types = grouped_types,
      .examples =
          {"(bf16[4, 32, 32], bf16[4, 32, 32])",
           "(bf16[4, 8, 32], bf16[4, 32, 32]{1024, 1, 32})",
           "(f32[8, 16], f32[4, 16, 32], i32[4]^8)",
           "(f32[8, 16], f32[4, 16, 32]{512, 1, 16}, i32[4]^8)",
           "(f32[4, 8, 16], f32[16, 8], i32[4]^8)",
           "(f32[16, 8]{1, 16}, f32[8, 16], i32[4]^8)"},
  });
}

}  // namespace weft
