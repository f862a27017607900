// SPDX-License-Identifier: Apache-2.0
// Negative log likelihood: the class of every target is looked up, and targets
// of classes that another rank has are passed over. Sums split into partial
// sums. A mean divides by a count that depends on the targets, so it stays
// whole; lower/split_means.cpp makes it a sum and a count, which split.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {

namespace {

struct NllTerms {
  std::string input;    // "n c? s0 s1"
  std::string targets;  // "n s0 s1"
};

// Classes are dim 1, or dim 0 of a single sample.
NllTerms nll_terms(const TensorType& input, bool whole) {
  const std::string mark = whole ? "!" : "";
  const std::string classes = whole ? "c!" : "c?";
  const size_t ndim = input.sizes.size();
  if (ndim == 1) {
    return {classes, "()"};
  }
  const std::string batch = cat("n", mark);
  if (ndim == 2) {
    return {cat(batch, " ", classes), batch};
  }
  const std::string pixels = numbered(ndim - 2, "s", mark);
  return {cat(batch, " ", classes, " ", pixels), cat(batch, " ", pixels)};
}

// (input, target, weight, reduction, ignore_index) -> (loss, total_weight)
Rule nll_rule(const Function& function, const Node& node) {
  const int64_t reduction = int_arg(node, 3, kMean);
  const NllTerms t = nll_terms(type_arg(function, node, 0), reduction == kMean);
  const bool each = reduction == kNone;
  return rule_from_terms(
      {t.input, t.targets, "c"},
      {each ? t.targets : "()", each ? "_" : "()"},
      function,
      node);
}

// (grad, input, target, weight, reduction, ignore_index, total_weight): the
// count of a mean is an operand, so this splits whatever the reduction.
Rule nll_backward_rule(const Function& function, const Node& node) {
  const NllTerms t = nll_terms(type_arg(function, node, 1), false);
  const bool each = int_arg(node, 4, kMean) == kNone;
  return rule_from_terms(
      {each ? t.targets : "()", t.input, t.targets, "c", "_"},
      {t.input},
      function,
      node);
}

std::vector<TensorType> nll_types(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const bool each = int_arg(node, 3, kMean) == kNone;
  return {
      make_type(input.dtype, each ? type_arg(function, node, 1).sizes : Dims{}),
      make_type(input.dtype, {})};
}

std::vector<TensorType> nll_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  return {make_type(input.dtype, input.sizes)};
}

int64_t count_targets(const Function& function, const Node& node) {
  return 2 * element_count(type_arg(function, node, 1));
}

int64_t nll_scratch(const Function& function, const Node& node) {
  if (int_arg(node, 3, kMean) == kNone) {
    return 0;
  }
  return copy_bytes(type_arg(function, node, 0)) +
         copy_bytes(type_arg(function, node, 1));
}

OpDef nll_op(
    std::string_view name,
    std::string_view backward,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = nll_rule,
      .flops = count_targets,
      .scratch_bytes = nll_scratch,
      .types = nll_types,
      .lookup_operand = 1,
      .ignore_arg = 4,
      .weighted_mean = WeightedMean{.reduction_arg = 3, .weight_result = 1},
      .backward = backward,
      .examples = std::move(examples),
  };
}

OpDef nll_backward_op(
    std::string_view name, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = nll_backward_rule,
      .linear = Linear::First,
      .types = nll_backward_types,
      .lookup_operand = 2,
      .ignore_arg = 5,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_nll_loss_ops(OpTable& ops) {
  ops.push_back(nll_op(
      "aten.nll_loss_forward",
      "aten.nll_loss_backward",
      {"(f32[8, 12], i64[8]<12, none, 2, -100)",
       "(f32[8, 12], i64[8]<12, f32[12], 2, 5)",
       "(f32[12], i64[]<12, none, 2, -100)",
       "(f32[8, 12], i64[8]<12, f32[12], 1, 2)",
       "(f32[8, 12], i64[8]<12, none, 0, -100)"}));
  ops.push_back(nll_backward_op(
      "aten.nll_loss_backward",
      {"(f32[], f32[8, 12], i64[8]<12, none, 2, -100, f32[])",
       "(f32[], f32[8, 12], i64[8]<12, f32[12], 2, 5, f32[])",
       "(f32[], f32[8, 12], i64[8]<12, f32[12], 1, 2, f32[])",
       "(f32[8], f32[8, 12], i64[8]<12, none, 0, -100, f32[])"}));
  ops.push_back(nll_op(
      "aten.nll_loss2d_forward",
      "aten.nll_loss2d_backward",
      {"(f32[4, 8, 4, 4], i64[4, 4, 4]<8, none, 2, -100)",
       "(f32[4, 8, 4, 4], i64[4, 4, 4]<8, f32[8], 1, 2)"}));
  ops.push_back(nll_backward_op(
      "aten.nll_loss2d_backward",
      {"(f32[], f32[4, 8, 4, 4], i64[4, 4, 4]<8, none, 1, -100, f32[])",
       "(f32[4, 4, 4], f32[4, 8, 4, 4], i64[4, 4, 4]<8, none, 0, -100, "
       "f32[])"}));
}

}  // namespace weft
