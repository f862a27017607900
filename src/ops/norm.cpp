// SPDX-License-Identifier: Apache-2.0
// Layer, RMS and weight normalisation. batch_norm.cpp has those over channels.
#include "base/text.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

namespace {

// Kernels keep statistics in f32 for half-precision input only when the
// weights are f32.
DType statistics_type(
    const Function& function,
    const Node& node,
    const TensorType& input,
    size_t weight_position) {
  for (const size_t position : {weight_position, weight_position + 1}) {
    const ValueId id = value_arg(node, position);
    if (id != ValueId::None && function[id].type.dtype == DType::F32) {
      return accumulate_type(input.dtype);
    }
  }
  return input.dtype;
}

// The sizes with the last `count` dims made 1.
Dims leading_sizes(Dims sizes, size_t count) {
  for (size_t i = sizes.size() - count; i < sizes.size(); ++i) {
    sizes[i] = 1;
  }
  return sizes;
}

struct NormTerms {
  std::string input;       // "... d0! d1!"
  std::string statistics;  // "... 1 1"
  std::string weight;      // "d0! d1!"
};

NormTerms norm_terms(size_t normalized) {
  NormTerms terms = {"...", "...", numbered(normalized, "d", "!")};
  terms.input += cat(" ", terms.weight);
  for (size_t i = 0; i < normalized; ++i) {
    terms.statistics += " 1";
  }
  return terms;
}

// (input, normalized_shape, weight, bias, eps) -> (output, mean, rstd)
Rule layer_norm_rule(const Function& function, const Node& node) {
  const NormTerms t = norm_terms(dims_arg(node, 1).size());
  return rule_from_terms(
      {t.input, t.weight, t.weight},
      {t.input, t.statistics, t.statistics},
      function,
      node);
}

std::vector<TensorType> layer_norm_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const TensorType statistics = make_type(
      statistics_type(function, node, input, 2),
      leading_sizes(input.sizes, dims_arg(node, 1).size()));
  return {make_type(input.dtype, input.sizes), statistics, statistics};
}

int64_t layer_norm_scratch(const Function& function, const Node& node) {
  return copy_bytes(type_arg(function, node, 0));
}

// (grad, input, normalized_shape, mean, rstd, weight, bias, output_mask)
//   -> (input's, weight's, bias's gradient)
Rule layer_norm_backward_rule(const Function& function, const Node& node) {
  const NormTerms t = norm_terms(dims_arg(node, 2).size());
  return rule_from_terms(
      {t.input, t.input, t.statistics, t.statistics, t.weight, t.weight},
      {flag_at(node, 7, 0) ? t.input : "_", t.weight, t.weight},
      function,
      node);
}

std::vector<TensorType> layer_norm_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  std::vector<TensorType> types(3, undefined_type());
  if (flag_at(node, 7, 0)) {
    types[0] = make_type(input.dtype, input.sizes);
  }
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (flag_at(node, 7, i) && value_arg(node, 4 + i) != ValueId::None) {
      const TensorType& parameter = type_arg(function, node, 4 + i);
      types[i] = make_type(parameter.dtype, parameter.sizes);
    }
  }
  return types;
}

// One row of partial sums for the weight and one for the bias a thread, in the
// input's type.
int64_t layer_norm_backward_scratch(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  int64_t bytes = copy_bytes(type_arg(function, node, 0)) + copy_bytes(input);
  if (flag_at(node, 7, 1) || flag_at(node, 7, 2)) {
    int64_t row = element_bytes(input.dtype);
    for (const int64_t size : dims_arg(node, 2)) {
      row *= size;
    }
    bytes += 2 * row;
  }
  return bytes;
}

// (input, normalized_shape, weight, eps) -> (output, rstd)
Rule rms_norm_rule(const Function& function, const Node& node) {
  const NormTerms t = norm_terms(dims_arg(node, 1).size());
  return rule_from_terms(
      {t.input, t.weight}, {t.input, t.statistics}, function, node);
}

std::vector<TensorType> rms_norm_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  return {
      make_type(input.dtype, input.sizes),
      make_type(
          accumulate_type(input.dtype),
          leading_sizes(input.sizes, dims_arg(node, 1).size()))};
}

// The CPU kernel is made of other ops: the product before the weight and, for
// half precision, the input and the result in f32.
int64_t rms_norm_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const int64_t wide = 4 * element_count(input);
  int64_t rows = 4;
  for (const int64_t size :
       leading_sizes(input.sizes, dims_arg(node, 1).size())) {
    rows *= size;
  }
  const int64_t weighted = value_arg(node, 2) == ValueId::None ? rows : wide;
  return input.dtype == DType::F32 ? weighted
                                   : 2 * wide + weighted - dense_bytes(input);
}

// (grad, input, normalized_shape, rstd, weight, output_mask)
//   -> (input's, weight's gradient)
Rule rms_norm_backward_rule(const Function& function, const Node& node) {
  const NormTerms t = norm_terms(dims_arg(node, 2).size());
  return rule_from_terms(
      {t.input, t.input, t.statistics, t.weight},
      {flag_at(node, 5, 0) ? t.input : "_", t.weight},
      function,
      node);
}

std::vector<TensorType> rms_norm_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  std::vector<TensorType> types(2, undefined_type());
  if (flag_at(node, 5, 0)) {
    types[0] = make_type(input.dtype, input.sizes);
  }
  if (flag_at(node, 5, 1) && value_arg(node, 4) != ValueId::None) {
    const TensorType& weight = type_arg(function, node, 4);
    types[1] = make_type(weight.dtype, weight.sizes);
  }
  return types;
}

// The dim that keeps its own norm, first or last, is free; the others are
// normalized together.
std::string weight_norm_term(const TensorType& type, int64_t dim) {
  std::string term;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    term += cat(i == 0 ? "" : " ", "d", i);
    if (static_cast<int64_t>(i) != dim) {
      term += "!";
    }
  }
  return term;
}

// (v, g, dim) -> (w, norms)
Rule weight_norm_rule(const Function& function, const Node& node) {
  const TensorType& v = type_arg(function, node, 0);
  const std::string term = weight_norm_term(v, int_arg(node, 2, 0));
  return rule_from_terms({term, term}, {term, term}, function, node);
}

std::vector<TensorType> weight_norm_types(
    const Function& function, const Node& node) {
  const TensorType& v = type_arg(function, node, 0);
  const TensorType& g = type_arg(function, node, 1);
  return {
      make_type(v.dtype, v.sizes),
      TensorType{accumulate_type(g.dtype), g.sizes, g.strides}};
}

// (grad_w, v, g, norms, dim) -> (grad_v, grad_g)
Rule weight_norm_backward_rule(const Function& function, const Node& node) {
  const TensorType& v = type_arg(function, node, 1);
  const std::string term = weight_norm_term(v, int_arg(node, 4, 0));
  return rule_from_terms(
      {term, term, term, term}, {term, term}, function, node);
}

std::vector<TensorType> weight_norm_backward_types(
    const Function& function, const Node& node) {
  const TensorType& v = type_arg(function, node, 1);
  const TensorType& g = type_arg(function, node, 2);
  return {make_type(v.dtype, v.sizes), make_type(g.dtype, g.sizes)};
}

}  // namespace

void add_norm_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.native_layer_norm",
      .rule_of = layer_norm_rule,
      .flops = per_element(7),
      .scratch_bytes = layer_norm_scratch,
      .types = layer_norm_types,
      .expand = expand_layer_norm,
      .backward = "aten.native_layer_norm_backward",
      .examples =
          {"(f32[4, 8, 16], [16], f32[16], f32[16], 1e-05)",
           "(f32[4, 8, 16], [8, 16], none, none, 1e-05)",
           "(bf16[4, 8, 16], [16], f32[16], f32[16], 1e-05)"},
  });
  ops.push_back({
      .name = "aten.native_layer_norm_backward",
      .rule_of = layer_norm_backward_rule,
      .linear = Linear::First,
      .flops = per_element(14),
      .scratch_bytes = layer_norm_backward_scratch,
      .types = layer_norm_backward_types,
      .expand = expand_layer_norm_backward,
      .examples =
          {"(f32[4, 8, 16], f32[4, 8, 16], [16], f32[4, 8, 1], f32[4, 8, 1], "
           "f32[16], f32[16], [true, true, true])",
           "(f32[4, 8, 16], f32[4, 8, 16], [16], f32[4, 8, 1], f32[4, 8, 1], "
           "none, none, [true, false, false])"},
  });
  ops.push_back({
      .name = "aten._fused_rms_norm",
      .rule_of = rms_norm_rule,
      .flops = per_element(4),
      .scratch_bytes = rms_norm_scratch,
      .types = rms_norm_types,
      .expand = expand_rms_norm,
      .backward = "aten._fused_rms_norm_backward",
      .examples =
          {"(f32[4, 8, 16], [16], f32[16], 1e-05)",
           "(f32[4, 8, 16], [16], none, 1e-05)",
           "(f32[4, 8, 16], [8, 16], none)"},
  });
  // No CPU kernel: autograd differentiates the pieces there.
  ops.push_back({
      .name = "aten._fused_rms_norm_backward",
      .rule_of = rms_norm_backward_rule,
      .linear = Linear::First,
      .flops = per_element(10),
      .types = rms_norm_backward_types,
      .expand = expand_rms_norm_backward,
      .examples =
          {"(f32[4, 8, 16], f32[4, 8, 16], [16], f32[4, 8, 1], f32[16], "
           "[true, true])"},
  });
  ops.push_back({
      .name = "aten._weight_norm_interface",
      .rule_of = weight_norm_rule,
      .flops = per_element(3),
      .types = weight_norm_types,
      .backward = "aten._weight_norm_interface_backward",
      .examples =
          {"(f32[8, 4, 3], f32[8, 1, 1])", "(f32[8, 4, 4], f32[1, 1, 4], 2)"},
  });
  ops.push_back({
      .name = "aten._weight_norm_interface_backward",
      .rule_of = weight_norm_backward_rule,
      .linear = Linear::First,
      .flops = per_element(6),
      .types = weight_norm_backward_types,
      .examples =
          {"(f32[8, 4, 3], f32[8, 4, 3], f32[8, 1, 1], f32[8, 1, 1], 0)"},
  });
}

}  // namespace weft
