// SPDX-License-Identifier: Apache-2.0
// Softmax and its relatives: every dim is free but the one that is normalized,
// which the expansions free (expand_softmax.cpp).
#include "base/text.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <algorithm>

namespace weft {

namespace {

// "d0 d1! d2" for dim 1.
std::string term_with_whole_dim(const TensorType& type, int64_t dim) {
  const size_t ndim = type.sizes.size();
  const int64_t whole = wrap_dim(dim, ndim);
  std::string term;
  for (size_t i = 0; i < ndim; ++i) {
    const bool marked = static_cast<int64_t>(i) == whole;
    term += cat(i == 0 ? "" : " ", "d", i, marked ? "!" : "");
  }
  return ndim == 0 ? "()" : term;
}

// All tensors have the sizes of operand 0; the dim is the argument at
// `dim_position`.
RuleFunction along_dim(size_t tensors, size_t dim_position) {
  return [=](const Function& function, const Node& node) {
    const std::string term = term_with_whole_dim(
        operand_type(function, node, 0), int_arg(node, dim_position, -1));
    return rule_from_terms(
        std::vector<std::string>(tensors, term), {term}, function, node);
  };
}

int64_t scratch_of_copies(const Function& function, const Node& node) {
  int64_t bytes = 0;
  for_each_operand(
      node, [&](ValueId id) { bytes += copy_bytes(function[id].type); });
  return bytes;
}

std::vector<TensorType> safe_softmax_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const DType dtype = dtype_option(node, "dtype").value_or(input.dtype);
  return {make_type(dtype, input.sizes)};
}

// The input in another type or without gaps, and after that a boolean for every
// element and every row.
int64_t safe_softmax_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const DType dtype = dtype_option(node, "dtype").value_or(input.dtype);
  const int64_t copy = dtype == input.dtype
                           ? copy_bytes(input)
                           : element_count(input) * element_bytes(dtype) *
                                 (is_row_major(input) ? 1 : 2);
  const Dims& sizes = input.sizes;
  const int64_t row = sizes.empty() ? 1
                                    : sizes[static_cast<size_t>(wrap_dim(
                                          int_arg(node, 1, -1), sizes.size()))];
  const int64_t count = element_count(input);
  return std::max(copy, count + count / std::max<int64_t>(row, 1));
}

// (input, mask, dim, mask_type): a mask over the keys, over the queries, or of
// the input's own sizes.
Rule masked_softmax_rule(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const TensorType& mask = type_arg(function, node, 1);
  if (mask.sizes.size() != input.sizes.size()) {
    return whole_rule(function, node);
  }
  const std::string term = term_with_whole_dim(input, int_arg(node, 2, -1));
  return rule_from_terms({term, term}, {term}, function, node);
}

std::vector<TensorType> first_operand_types(
    const Function& function, const Node& node) {
  return {like(operand_type(function, node, 0))};
}

std::vector<TensorType> row_major_types(
    const Function& function, const Node& node) {
  const TensorType& input = operand_type(function, node, 0);
  return {make_type(input.dtype, input.sizes)};
}

// Row-major operands give a row-major result; what PyTorch makes of others is
// left to it.
std::vector<TensorType> softmax_types(
    const Function& function, const Node& node) {
  const TensorType& input = operand_type(function, node, 0);
  if (!is_row_major(input) || bool_arg(node, 2, false)) {
    return {};
  }
  return {make_type(input.dtype, input.sizes)};
}

std::vector<TensorType> softmax_backward_types(
    const Function& function, const Node& node) {
  const TensorType& gradient = operand_type(function, node, 0);
  const Arg* dtype = find_arg(node, 3);
  if (!is_row_major(gradient) || dtype == nullptr ||
      !is_row_major(operand_type(function, node, 1))) {
    return {};
  }
  return {make_type(std::get<DType>(dtype->data), gradient.sizes)};
}

}  // namespace

void add_softmax_ops(OpTable& ops) {
  for (const bool log : {false, true}) {
    const char* backward =
        log ? "aten._log_softmax_backward_data" : "aten._softmax_backward_data";
    ops.push_back({
        .name = log ? "aten._log_softmax" : "aten._softmax",
        .rule_of = along_dim(1, 1),
        .flops = per_element(5),
        .special = Special::Exponential,
        .scratch_bytes = scratch_of_copies,
        .types = softmax_types,
        .in_place = true,
        .expand = log ? expand_log_softmax : expand_softmax,
        .backward = backward,
        .examples =
            {"(f32[4, 8, 12], 2, false)",
             "(f32[4, 8, 12], 1, false)",
             "(bf16[4, 8, 12], -1, false)"},
    });
    ops.push_back({
        .name = backward,
        .rule_of = along_dim(2, 2),
        .linear = Linear::First,
        .flops = per_element(4),
        .special = log ? Special::Exponential : Special::None,
        .scratch_bytes = scratch_of_copies,
        .types = softmax_backward_types,
        .in_place = true,
        .expand = log ? expand_log_softmax_backward : expand_softmax_backward,
        .examples = {"(f32[4, 8, 12], f32[4, 8, 12], 2, f32)"},
    });
  }
  ops.push_back({
      .name = "aten._safe_softmax",
      .rule_of = along_dim(1, 1),
      .flops = per_element(6),
      .special = Special::Exponential,
      .scratch_bytes = safe_softmax_scratch,
      .types = safe_softmax_types,
      .expand = expand_safe_softmax,
      .backward = "aten._softmax_backward_data",
      .examples = {"(f32[4, 8, 12], -1)", "(f16[4, 8, 12], 1, dtype=f32)"},
  });
  ops.push_back({
      .name = "aten._masked_softmax",
      .rule_of = masked_softmax_rule,
      .flops = per_element(6),
      .special = Special::Exponential,
      .scratch_bytes = scratch_of_copies,
      .types = first_operand_types,
      .backward = "aten._masked_softmax_backward",
      .examples = {"(f32[4, 8, 4, 12], bool[4, 8, 4, 12], -1, 2)"},
  });
  ops.push_back({
      .name = "aten._masked_softmax_backward",
      .rule_of = along_dim(3, 3),
      .linear = Linear::First,
      .flops = per_element(5),
      .scratch_bytes = scratch_of_copies,
      .types = row_major_types,
      .examples = {"(f32[4, 8, 12], f32[4, 8, 12], bool[4, 8, 12], -1)"},
  });
  for (const char* name : {"aten.logcumsumexp", "aten._logcumsumexp"}) {
    ops.push_back({
        .name = name,
        .rule_of = along_dim(1, 1),
        .flops = per_element(4),
        .special = Special::Exponential,
        .types = row_major_types,
        .examples = {"(f32[4, 8, 12], 1)"},
    });
  }
}

}  // namespace weft
