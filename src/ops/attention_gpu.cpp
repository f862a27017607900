// SPDX-License-Identifier: Apache-2.0
// The attention kernels of GPUs, so that graphs recorded there can be planned.
#include "base/text.h"
#include "ops/attention.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

namespace {

// (query, key, value, dropout_p, is_causal, return_debug_mask)
//   -> (output, logsumexp, cum_seq_q, cum_seq_k, rng_state, unused, debug_mask)
// The two integers that the schema returns as well are not values.
Rule flash_rule(const Function& function, const Node& node) {
  const AttentionTerms t = attention_terms(
      type_arg(function, node, 0),
      type_arg(function, node, 1),
      bool_arg(node, 4, false));
  return rule_from_terms(
      {t.query, t.key, t.value},
      {t.output, t.row, "_", "_", "_", "_", "_"},
      function,
      node);
}

std::vector<TensorType> flash_types(
    const Function& function, const Node& node) {
  const TensorType& query = type_arg(function, node, 0);
  const Dims& q = query.sizes;
  return {
      like(query),
      make_type(DType::F32, {q.at(0), q.at(1), q.at(2)}),
      undefined_type(),
      undefined_type(),
      make_type(DType::U64, {2}),
      make_type(DType::U64, {}),
      make_type(query.dtype, {0})};
}

// (grad, query, key, value, output, logsumexp, cum_seq_q, cum_seq_k, max_q,
//  max_k, dropout_p, is_causal, philox_seed, philox_offset)
Rule flash_backward_rule(const Function& function, const Node& node) {
  const AttentionTerms t = attention_terms(
      type_arg(function, node, 1),
      type_arg(function, node, 2),
      bool_arg(node, 11, false));
  return rule_from_terms(
      {t.output, t.query, t.key, t.value, t.output, t.row, "_", "_", "_", "_"},
      {t.query, t.key, t.value},
      function,
      node);
}

std::vector<TensorType> flash_backward_types(
    const Function& function, const Node& node) {
  return {
      like(type_arg(function, node, 1)),
      like(type_arg(function, node, 2)),
      like(type_arg(function, node, 3))};
}

// (query, key, value, bias, compute_log_sumexp, dropout_p, is_causal)
//   -> (output, logsumexp, philox_seed, philox_offset)
Rule efficient_rule(const Function& function, const Node& node) {
  // logsumexp has rows up to a multiple of 32, so queries stay whole.
  const AttentionTerms t = attention_terms(
      type_arg(function, node, 0), type_arg(function, node, 1), true);
  return rule_from_terms(
      {t.query, t.key, t.value, mask_term(function, value_arg(node, 3), t)},
      {t.output, cat("b ", t.heads, " r!"), "_", "_"},
      function,
      node);
}

std::vector<TensorType> efficient_types(
    const Function& function, const Node& node) {
  const TensorType& query = type_arg(function, node, 0);
  const Dims& q = query.sizes;
  const Dims& v = type_arg(function, node, 2).sizes;
  const int64_t rows = bool_arg(node, 4, false) ? (q.at(2) + 31) / 32 * 32 : 0;
  return {
      heads_inside(query.dtype, {q.at(0), q.at(1), q.at(2), v.at(3)}),
      make_type(DType::F32, {q.at(0), q.at(1), rows}),
      make_type(DType::I64, {}),
      make_type(DType::I64, {})};
}

// (grad, query, key, value, bias, output, logsumexp, philox_seed,
//  philox_offset, dropout_p, grad_input_mask, is_causal)
//   -> (query's, key's, value's, bias's gradient)
Rule efficient_backward_rule(const Function& function, const Node& node) {
  const AttentionTerms t = attention_terms(
      type_arg(function, node, 1), type_arg(function, node, 2), true);
  const std::string bias = mask_term(function, value_arg(node, 4), t);
  const std::string row = cat("b ", t.heads, " r!");
  return rule_from_terms(
      {t.output, t.query, t.key, t.value, bias, t.output, row, "_", "_"},
      {t.query, t.key, t.value, bias},
      function,
      node);
}

std::vector<TensorType> efficient_backward_types(
    const Function& function, const Node& node) {
  std::vector<TensorType> types = attention_gradients(function, node);
  types.push_back(undefined_type());
  if (value_arg(node, 4) != ValueId::None && flag_at(node, 10, 3)) {
    // Rows lie on multiples of 16 elements.
    TensorType bias = type_arg(function, node, 4);
    const Dims sizes = bias.sizes;
    bias.sizes.back() = (sizes.back() + 15) / 16 * 16;
    types.back() = make_type(bias.dtype, sizes, row_major_strides(bias.sizes));
  }
  return types;
}

}  // namespace

void add_gpu_attention_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten._scaled_dot_product_flash_attention",
      .rule_of = flash_rule,
      .flops = attention_flops,
      .types = flash_types,
      .backward = "aten._scaled_dot_product_flash_attention_backward",
      .examples = {"(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16])"},
  });
  ops.push_back({
      .name = "aten._scaled_dot_product_flash_attention_backward",
      .rule_of = flash_backward_rule,
      .linear = Linear::First,
      .flops = attention_backward_flops,
      .types = flash_backward_types,
      .examples = {"(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
                   "f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8], none, "
                   "none, 8, 8, "
                   "0.0, false, u64[2], u64[])"},
  });
  ops.push_back({
      .name = "aten._scaled_dot_product_efficient_attention",
      .rule_of = efficient_rule,
      .flops = attention_flops,
      .types = efficient_types,
      .backward = "aten._scaled_dot_product_efficient_attention_backward",
      .examples = {"(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
                   "none, true)"},
  });
  ops.push_back({
      .name = "aten._scaled_dot_product_efficient_attention_backward",
      .rule_of = efficient_backward_rule,
      .linear = Linear::First,
      .flops = attention_backward_flops,
      .types = efficient_backward_types,
      .examples =
          {"(f32[4, 4, 8, 16], f32[4, 4, 8, 16], f32[4, 4, 8, 16], "
           "f32[4, 4, 8, 16], none, f32[4, 4, 8, 16], f32[4, 4, 32], i64[], "
           "i64[], 0.0, [true, true, true, false])"},
  });
}

}  // namespace weft
