// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <algorithm>

namespace weft {

AttentionTerms attention_terms(
    const TensorType& query, const TensorType& key, bool whole) {
  const int64_t shared = key.sizes.at(1);
  const std::string heads =
      query.sizes.at(1) == shared ? "h" : cat("(h=", shared, " g!)");
  const std::string s = whole ? "s!" : "s";
  return {
      .query = cat("b ", heads, " ", s, " k!"),
      .key = "b h t! k!",
      .value = "b h t! v!",
      .output = cat("b ", heads, " ", s, " v!"),
      .row = cat("b ", heads, " ", s),
      .heads = heads,
      .s = s};
}

std::string mask_term(
    const Function& function, ValueId mask, const AttentionTerms& terms) {
  if (mask == ValueId::None) {
    return "_";
  }
  switch (function[mask].type.sizes.size()) {
    case 2:
      return cat(terms.s, " t!");
    case 3:
      return cat(terms.heads, " ", terms.s, " t!");
    default:
      return cat("b ", terms.heads, " ", terms.s, " t!");
  }
}

int64_t attention_flops(const Function& function, const Node& node) {
  const Dims& q = type_arg(function, node, 0).sizes;
  const int64_t t = type_arg(function, node, 1).sizes.at(2);
  const int64_t v = type_arg(function, node, 2).sizes.at(3);
  return 2 * q.at(0) * q.at(1) * q.at(2) * t * (q.at(3) + v);
}

int64_t attention_backward_flops(const Function& function, const Node& node) {
  const Dims& q = type_arg(function, node, 1).sizes;
  const int64_t t = type_arg(function, node, 2).sizes.at(2);
  const int64_t v = type_arg(function, node, 3).sizes.at(3);
  return 2 * q.at(0) * q.at(1) * q.at(2) * t * (3 * q.at(3) + 2 * v);
}

TensorType heads_inside(DType dtype, const Dims& sizes) {
  const int64_t row = sizes.at(1) * sizes.at(3);
  return make_type(dtype, sizes, {sizes.at(2) * row, sizes.at(3), row, 1});
}

std::vector<TensorType> attention_gradients(
    const Function& function, const Node& node) {
  std::vector<TensorType> types;
  for (const size_t position : {size_t{1}, size_t{2}, size_t{3}}) {
    const TensorType& of = type_arg(function, node, position);
    types.push_back(heads_inside(of.dtype, of.sizes));
  }
  return types;
}

ValueId attention_mask(const Node& node) {
  const Arg* mask = find_option(node, "attn_mask");
  const auto* id =
      mask == nullptr ? nullptr : std::get_if<ValueId>(&mask->data);
  return id == nullptr ? ValueId::None : *id;
}

namespace {

// (query, key, value, dropout_p, is_causal) -> (output, logsumexp)
Rule cpu_rule(const Function& function, const Node& node) {
  const AttentionTerms t = attention_terms(
      type_arg(function, node, 0),
      type_arg(function, node, 1),
      bool_arg(node, 4, false));
  const std::string mask = mask_term(function, attention_mask(node), t);
  return rule_from_terms(
      {t.query, t.key, t.value, mask}, {t.output, t.row}, function, node);
}

std::vector<TensorType> cpu_types(const Function& function, const Node& node) {
  const TensorType& query = type_arg(function, node, 0);
  const TensorType& value = type_arg(function, node, 2);
  const Dims& q = query.sizes;
  WEFT_CHECK_USER(
      q.at(3) == value.sizes.at(3),
      "the CPU's flash attention wants heads of queries and values of one "
      "size");
  return {
      like(query),
      make_type(
          accumulate_type(query.dtype),
          {q.at(0), q.at(1), q.at(2)},
          {q.at(2) * q.at(1), 1, q.at(1)})};
}

// The kernel works on blocks of queries against blocks of 512 keys.
int64_t query_block(int64_t queries) {
  const int64_t block = queries >= 768 ? 256 : queries >= 192 ? 64 : 32;
  return std::min(block, queries);
}

int64_t key_block(int64_t keys) { return std::min<int64_t>(512, keys); }

// A block of queries is not multiplied with keys behind its last query, where a
// causal mask hides them.
int64_t hidden_share_of(
    int64_t flops, const TensorType& query, const TensorType& key) {
  const int64_t queries = query.sizes.at(2);
  const int64_t keys = key.sizes.at(2);
  const int64_t block = std::max<int64_t>(1, query_block(queries));
  int64_t hidden = 0;
  for (int64_t begin = 0; begin < queries; begin += block) {
    const int64_t end = std::min(begin + block, queries);
    hidden += (end - begin) * std::max<int64_t>(0, keys - end);
  }
  return hidden == 0 ? 0 : flops / (queries * keys) * hidden;
}

int64_t cpu_hidden_flops(const Function& function, const Node& node) {
  return bool_arg(node, 4, false) ? hidden_share_of(
                                        attention_flops(function, node),
                                        type_arg(function, node, 0),
                                        type_arg(function, node, 1))
                                  : 0;
}

int64_t cpu_backward_hidden_flops(const Function& function, const Node& node) {
  return bool_arg(node, 7, false)
             ? hidden_share_of(
                   attention_backward_flops(function, node),
                   type_arg(function, node, 1),
                   type_arg(function, node, 2))
             : 0;
}

// A thread holds one block of scores, the block's maxima and sums, and its
// output; half precision also a block of scores in its own type.
int64_t cpu_scratch(const Function& function, const Node& node) {
  const TensorType& query = type_arg(function, node, 0);
  const int64_t rows = query_block(query.sizes.at(2));
  const int64_t columns = key_block(type_arg(function, node, 1).sizes.at(2));
  const int64_t width = type_arg(function, node, 2).sizes.at(3);
  const DType sums = accumulate_type(query.dtype);
  const int64_t half =
      sums == query.dtype ? 0 : rows * columns * element_bytes(query.dtype);
  return element_bytes(sums) * rows * (columns + 2 + width) + half;
}

// (grad, query, key, value, output, logsumexp, dropout_p, is_causal)
//   -> (query's, key's, value's gradient)
Rule cpu_backward_rule(const Function& function, const Node& node) {
  const AttentionTerms t = attention_terms(
      type_arg(function, node, 1),
      type_arg(function, node, 2),
      bool_arg(node, 7, false));
  const std::string mask = mask_term(function, attention_mask(node), t);
  return rule_from_terms(
      {t.output, t.query, t.key, t.value, t.output, t.row, mask},
      {t.query, t.key, t.value},
      function,
      node);
}

// A thread holds a block of scores and one of their gradients, twice for half
// precision, and one sum a row. The gradient is copied to have heads inside.
int64_t cpu_backward_scratch(const Function& function, const Node& node) {
  const TensorType& query = type_arg(function, node, 1);
  const int64_t rows = query_block(query.sizes.at(2));
  const int64_t columns = key_block(type_arg(function, node, 2).sizes.at(2));
  const DType sums = accumulate_type(query.dtype);
  const int64_t half =
      sums == query.dtype ? 0 : 2 * rows * columns * element_bytes(query.dtype);
  const TensorType& grad = type_arg(function, node, 0);
  const int64_t copy =
      grad == heads_inside(grad.dtype, grad.sizes) ? 0 : dense_bytes(grad);
  return element_bytes(sums) * rows * (2 * columns + 1) + half + copy;
}

}  // namespace

void add_attention_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten._scaled_dot_product_flash_attention_for_cpu",
      .rule_of = cpu_rule,
      .flops = attention_flops,
      .hidden_flops = cpu_hidden_flops,
      .scratch_bytes = cpu_scratch,
      .types = cpu_types,
      .expand = expand_attention,
      .blocks = attention_blocks(),
      .backward = "aten._scaled_dot_product_flash_attention_for_cpu_backward",
      .examples =
          {"(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16])",
           "(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], 0.0, true)",
           "(f32[4, 8, 8, 16], f32[4, 4, 12, 16], f32[4, 4, 12, 16])",
           "(f32[4, 4, 8, 16], f32[4, 4, 12, 16], f32[4, 4, 12, 16], 0.0, "
           "true, scale=0.5)",
           "(f32[4, 8, 8, 16]{1024, 16, 128, 1}, f32[4, 4, 8, 16]{512, 16, "
           "64, 1}, f32[4, 4, 8, 16]{512, 16, 64, 1}, 0.0, true)",
           "(f32[4, 8, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
           "attn_mask=f32[4, 8, 8, 8])",
           "(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
           "attn_mask=f32[4, 1, 8, 8])"},
  });
  ops.push_back({
      .name = "aten._scaled_dot_product_flash_attention_for_cpu_backward",
      .rule_of = cpu_backward_rule,
      .linear = Linear::First,
      .flops = attention_backward_flops,
      .hidden_flops = cpu_backward_hidden_flops,
      .scratch_bytes = cpu_backward_scratch,
      .types = attention_gradients,
      .expand = expand_attention_backward,
      .blocks = attention_backward_blocks(),
      .examples =
          {"(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
           "f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8], 0.0, false)",
           "(f32[4, 8, 8, 16], f32[4, 8, 8, 16], f32[4, 4, 8, 16], "
           "f32[4, 4, 8, 16], f32[4, 8, 8, 16], f32[4, 8, 8], 0.0, true)",
           "(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
           "f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8], 0.0, false, "
           "attn_mask=f32[8, 8])"},
  });
}

}  // namespace weft
