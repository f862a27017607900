// SPDX-License-Identifier: Apache-2.0
// Batch norm over a batch that is split: what lower/split_batch_norms.cpp makes
// of a batch norm that trains. Sums over the batch are results of their own, in
// f64, that ranks add up; `count` is how many elements of the whole batch each
// channel has.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

namespace weft {
namespace {

std::string image_term(const TensorType& input) {
  std::string term = "n c";
  if (input.sizes.size() > 2) {
    term += cat(" ", numbered(input.sizes.size() - 2, "s", ""));
  }
  return term;
}

TensorType sums_type(const TensorType& input) {
  return make_type(DType::F64, {2, input.sizes.at(1)});
}

}  // namespace

void add_global_batch_norm_ops(OpTable& ops) {
  // (input) -> the sum and the sum of squares of each channel.
  ops.push_back({
      .name = "weft.batch_norm_sums",
      .rule_of =
          [](const Function& function, const Node& node) {
            return rule_from_terms(
                {image_term(type_arg(function, node, 0))},
                {"two=2! c"},
                function,
                node);
          },
      .flops = per_element(3),
      .types =
          [](const Function& function, const Node& node) {
            return std::vector{sums_type(type_arg(function, node, 0))};
          },
      .examples = {"(f32[4, 8, 4, 4])", "(f32[4, 8])"},
  });
  // (sums, running_mean, running_var, count, momentum, eps) -> (mean, variance,
  // 1 / deviation, running_mean, running_var)
  ops.push_back({
      .name = "weft.batch_norm_statistics",
      .rule = "two! c, c, c -> c, c, c, c, c",
      .types =
          [](const Function& function, const Node& node) {
            return std::vector<TensorType>(5, type_arg(function, node, 1));
          },
      .in_place = true,
      .examples = {"(f64[2, 8]>0, f32[8], f32[8]>0, 64, 0.1, 1e-05)"},
  });
  // (gradient, input, mean) -> the sum of the gradient, and of the gradient
  // times the distance from the mean.
  ops.push_back({
      .name = "weft.batch_norm_backward_sums",
      .rule_of =
          [](const Function& function, const Node& node) {
            const std::string image = image_term(type_arg(function, node, 1));
            return rule_from_terms(
                {image, image, "c"}, {"two=2! c"}, function, node);
          },
      .linear = Linear::First,
      .flops = per_element(4),
      .types =
          [](const Function& function, const Node& node) {
            return std::vector{sums_type(type_arg(function, node, 1))};
          },
      .examples = {"(f32[4, 8, 4, 4], f32[4, 8, 4, 4], f32[8])"},
  });
  // (gradient, input, weight or none, mean, 1 / deviation, sums, count) -> the
  // input's gradient
  ops.push_back({
      .name = "weft.batch_norm_backward_input",
      .rule_of =
          [](const Function& function, const Node& node) {
            const std::string image = image_term(type_arg(function, node, 1));
            std::vector<std::string> terms = {image, image};
            terms.resize(operands(node).size(), "c");
            terms.back() = "two! c";
            return rule_from_terms(terms, {image}, function, node);
          },
      .flops = per_element(5),
      .types =
          [](const Function& function, const Node& node) {
            const TensorType& input = type_arg(function, node, 1);
            return std::vector{in_contiguous_format_of(input)};
          },
      .in_place = true,
      .examples =
          {"(f32[4, 8, 4, 4], f32[4, 8, 4, 4], f32[8], f32[8], f32[8]>0, "
           "f64[2, 8], 64)",
           "(f64[2, 8], f64[2, 8], f64[8], f64[8], f64[8]>0, f64[2, 8], 2)"},
  });
  // (sums, 1 / deviation) -> the weight's and the bias's gradient
  ops.push_back({
      .name = "weft.batch_norm_backward_weights",
      .rule = "two! c, c -> c, c",
      .types =
          [](const Function& function, const Node& node) {
            return std::vector<TensorType>(2, type_arg(function, node, 1));
          },
      .examples = {"(f64[2, 8], f32[8]>0)"},
  });
}

}  // namespace weft
