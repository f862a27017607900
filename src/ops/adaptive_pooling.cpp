// SPDX-License-Identifier: Apache-2.0
// Pooling to a size that the caller names. Batch and channels are free; space
// splits where every output has equal windows that do not overlap.
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <algorithm>
#include <utility>

namespace weft {

namespace {

struct AdaptiveTerms {
  std::string input;
  std::string output;
};

// For every dim: "s:mean" to one output, "(s k!)" where the input is a multiple
// of the output, else whole. `global` says whether a mean over all may split.
AdaptiveTerms adaptive_terms(
    const TensorType& input, const Dims& output, bool global) {
  const size_t spatial = output.size();
  AdaptiveTerms t = {plane(input, spatial), plane(input, spatial)};
  const size_t lead = input.sizes.size() - spatial;
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t size = input.sizes[lead + d];
    if (output[d] == 1) {
      t.input += cat(" s", d, global ? ":mean" : "!");
      t.output += " 1";
    } else if (output[d] > 0 && size % output[d] == 0) {
      t.input += cat(" (s", d, "=", output[d], " k", d, "!)");
      t.output += cat(" s", d);
    } else {
      t.input += cat(" k", d, "!");
      t.output += cat(" s", d, "!");
    }
  }
  return t;
}

Dims last_sizes(const TensorType& type, size_t count) {
  return {
      type.sizes.end() - static_cast<std::ptrdiff_t>(count), type.sizes.end()};
}

// (input, output_size) -> output
Rule average_rule(const Function& function, const Node& node) {
  const AdaptiveTerms t =
      adaptive_terms(type_arg(function, node, 0), dims_arg(node, 1), true);
  return rule_from_terms({t.input}, {t.output}, function, node);
}

void localize_average(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  const Rule rule = average_rule(function, node);
  Dims sizes = dims_arg(node, 1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int factor = find_factor(rule, cat("s", d));
    if (sizes[d] != 1) {
      sizes[d] = pieces[static_cast<size_t>(factor)].size;
    }
  }
  set_arg(node, 1, to_arg(sizes));
}

std::vector<TensorType> average_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const Dims output = dims_arg(node, 1);
  Dims sizes = input.sizes;
  std::copy(
      output.begin(),
      output.end(),
      sizes.end() - static_cast<std::ptrdiff_t>(output.size()));
  // The kernel for volumes knows row-major only.
  return {
      output.size() == 2 ? in_format_of(input, input.dtype, sizes)
                         : make_type(input.dtype, sizes)};
}

int64_t average_scratch(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  return is_channels_last(input) ? 0 : copy_bytes(input);
}

// (grad, input) -> gradient. That of a global mean divides by the size seen.
RuleFunction average_backward_rule(size_t spatial) {
  return [spatial](const Function& function, const Node& node) {
    const TensorType& input = type_arg(function, node, 1);
    const AdaptiveTerms t = adaptive_terms(
        input, last_sizes(type_arg(function, node, 0), spatial), false);
    return rule_from_terms({t.output, t.input}, {t.input}, function, node);
  };
}

std::vector<TensorType> average_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  return {
      input.sizes.size() == 4 ? in_format_of(input, input.dtype, input.sizes)
                              : make_type(input.dtype, input.sizes)};
}

// (input, output_size) -> (output, indices)
std::vector<TensorType> max_types(const Function& function, const Node& node) {
  const TensorType output = average_types(function, node).front();
  return {output, {DType::I64, output.sizes, output.strides}};
}

// Maxima keep indices into the whole plane.
RuleFunction adaptive_max_rule(size_t spatial) {
  return [spatial](const Function& function, const Node& node) {
    const std::string lead = plane(type_arg(function, node, 0), spatial);
    const std::string output = cat(lead, " ", numbered(spatial, "p", "!"));
    return rule_from_terms(
        {cat(lead, " ", numbered(spatial, "s", "!"))},
        {output, output},
        function,
        node);
  };
}

RuleFunction adaptive_max_backward_rule(size_t spatial) {
  return [spatial](const Function& function, const Node& node) {
    const std::string lead = plane(type_arg(function, node, 1), spatial);
    const std::string input = cat(lead, " ", numbered(spatial, "s", "!"));
    const std::string output = cat(lead, " ", numbered(spatial, "p", "!"));
    return rule_from_terms({output, input, output}, {input}, function, node);
  };
}

OpDef adaptive_average(
    std::string_view name,
    std::string_view backward,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = average_rule,
      .linear = Linear::All,
      .scratch_bytes = average_scratch,
      .types = average_types,
      .localize = localize_average,
      .backward = backward,
      .examples = std::move(examples),
  };
}

OpDef adaptive_average_backward(
    std::string_view name,
    size_t spatial,
    std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = average_backward_rule(spatial),
      .linear = Linear::First,
      .types = average_backward_types,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_adaptive_pooling_ops(OpTable& ops) {
  ops.push_back(adaptive_average(
      "aten._adaptive_avg_pool2d",
      "aten._adaptive_avg_pool2d_backward",
      {"(f32[4, 8, 8, 8], [4, 4])",
       "(f32[4, 8, 8, 8], [1, 1])",
       "(f32[4, 8, 8, 7], [4, 3])"}));
  ops.push_back(adaptive_average_backward(
      "aten._adaptive_avg_pool2d_backward",
      2,
      {"(f32[4, 8, 4, 4], f32[4, 8, 8, 8])",
       "(f32[4, 8, 1, 1], f32[4, 8, 8, 8])"}));
  ops.push_back(adaptive_average(
      "aten._adaptive_avg_pool3d",
      "aten._adaptive_avg_pool3d_backward",
      {"(f32[2, 4, 4, 8, 8], [4, 4, 4])"}));
  ops.push_back(adaptive_average_backward(
      "aten._adaptive_avg_pool3d_backward",
      3,
      {"(f32[2, 4, 4, 4, 4], f32[2, 4, 4, 8, 8])"}));
  ops.push_back({
      .name = "aten.adaptive_max_pool2d",
      .rule_of = adaptive_max_rule(2),
      .scratch_bytes = average_scratch,
      .types = max_types,
      .backward = "aten.adaptive_max_pool2d_backward",
      .examples = {"(f32[4, 8, 8, 8], [4, 4])"},
  });
  ops.push_back({
      .name = "aten.adaptive_max_pool2d_backward",
      .rule_of = adaptive_max_backward_rule(2),
      .linear = Linear::First,
      .types = average_backward_types,
      .examples = {"(f32[4, 8, 4, 4], f32[4, 8, 8, 8], i64[4, 8, 4, 4]<64)"},
  });
  ops.push_back({
      .name = "aten.adaptive_max_pool3d",
      .rule_of = adaptive_max_rule(3),
      .scratch_bytes = average_scratch,
      .types = max_types,
      .backward = "aten.adaptive_max_pool3d_backward",
      .examples = {"(f32[2, 4, 4, 8, 8], [2, 4, 4])"},
  });
  ops.push_back({
      .name = "aten.adaptive_max_pool3d_backward",
      .rule_of = adaptive_max_backward_rule(3),
      .linear = Linear::First,
      .types = average_backward_types,
      .examples =
          {"(f32[2, 4, 2, 4, 4], f32[2, 4, 4, 8, 8], i64[2, 4, 2, 4, 4]<256)"},
  });
}

}  // namespace weft
