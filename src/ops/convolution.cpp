// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1 to 3 dims. n = batch, g = groups, i and o = channels of the
// input and the output in a group, s = steps of the window, k = the window.
#include "ops/convolution.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <utility>

namespace weft {

Convolution Convolution::forward(const Function& function, const Node& node) {
  return {type_arg(function, node, 0), type_arg(function, node, 1), 3, &node};
}

Convolution Convolution::backward(const Function& function, const Node& node) {
  return {type_arg(function, node, 1), type_arg(function, node, 2), 4, &node};
}

namespace {

// Of windows and what lies between them: sums of these are no overflow.
int64_t bounded(int64_t elements) {
  constexpr int64_t kMost = int64_t{1} << 31;
  WEFT_CHECK(
      -kMost < elements && elements < kMost,
      "a stride, padding or dilation is ",
      elements);
  return elements;
}

}  // namespace

int64_t Convolution::stride(size_t dim) const {
  const int64_t step = bounded(dim_at(*node, stride_position, dim, 1));
  WEFT_CHECK(step > 0, "a stride is ", step);
  return step;
}

int64_t Convolution::padding(size_t dim) const {
  return bounded(dim_at(*node, stride_position + 1, dim, 0));
}

int64_t Convolution::dilation(size_t dim) const {
  return bounded(dim_at(*node, stride_position + 2, dim, 1));
}

bool Convolution::transposed() const {
  return bool_arg(*node, stride_position + 3, false);
}

int64_t Convolution::output_padding(size_t dim) const {
  return bounded(dim_at(*node, stride_position + 4, dim, 0));
}

int64_t Convolution::groups() const {
  const int64_t count = int_arg(*node, stride_position + 5, 1);
  WEFT_CHECK(count > 0, "there are ", count, " groups");
  return count;
}

Dims Convolution::output_sizes() const {
  Dims sizes = {
      input.sizes.at(0),
      transposed() ? weight.sizes.at(1) * groups() : weight.sizes.at(0)};
  for (size_t d = 0; d < spatial_dims(); ++d) {
    const int64_t size = input.sizes[d + 2];
    const int64_t window = dilation(d) * (kernel(d) - 1) + 1;
    sizes.push_back(
        transposed() ? (size - 1) * stride(d) - 2 * padding(d) + window +
                           output_padding(d)
                     : (size + 2 * padding(d) - window) / stride(d) + 1);
  }
  return sizes;
}

bool Convolution::uses_channels_last() const {
  return (is_channels_last(input) || is_channels_last(weight)) &&
         (spatial_dims() < 3 || uses_onednn());
}

namespace {

struct ConvolutionTerms {
  std::string input;
  std::string weight;
  std::string output;
  std::string bias;
};

// `whole_channels`: a sum over input channels must not be split, for a bias or
// its gradient would be counted once a piece. `whole_space`: likewise for
// pieces of the output that overlap.
ConvolutionTerms convolution_terms(
    const Convolution& c, bool whole_channels, bool whole_space) {
  const std::string i = whole_channels ? "i!" : "i";
  const std::string group = cat("g=", c.groups());
  const bool grouped = c.groups() > 1;
  const std::string in = grouped ? cat("(", group, " ", i, ")") : i;
  const std::string out = grouped ? cat("(", group, " o)") : "o";
  const size_t dims = c.spatial_dims();
  const std::string steps = numbered(dims, "s", whole_space ? "!" : "");
  std::string window = whole_space ? numbered(dims, "p", "!") : "";
  for (size_t d = 0; !whole_space && d < dims; ++d) {
    // A window of one element reaches nowhere.
    const bool is_point =
        c.kernel(d) == 1 && c.stride(d) == 1 && c.padding(d) == 0;
    window += cat(d == 0 ? "" : " ", "s", d, is_point ? "" : "~");
  }
  const std::string kernel = numbered(dims, "k", "!");
  const bool t = c.transposed();
  return {
      .input = cat("n ", in, " ", t ? steps : window),
      .weight = t ? cat(in, " o ", kernel) : cat(out, " ", i, " ", kernel),
      .output = cat("n ", out, " ", t ? window : steps),
      .bias = out};
}

// Whether a bias, or its gradient, would be counted more or less than once in
// pieces of space: where the pieces of a transposed convolution's output
// overlap or leave gaps.
bool miscounts_bias(const Convolution& c) {
  bool tiles = true;
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    tiles = tiles && c.dilation(d) * (c.kernel(d) - 1) + 1 == c.stride(d) &&
            c.output_padding(d) <= c.padding(d);
  }
  return c.transposed() && !tiles;
}

// A step of the window touches `kernel` elements, `dilation` apart; those of a
// transposed convolution lie in the output.
void set_windows(const Convolution& c, Rule& rule) {
  if (rule.halos.empty()) {
    return;
  }
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    Factor& factor =
        rule.factors[static_cast<size_t>(find_factor(rule, cat("s", d)))];
    const int64_t window = c.dilation(d) * (c.kernel(d) - 1);
    factor.window = {
        .stride = c.stride(d),
        .before = c.padding(d),
        .after = window - c.padding(d)};
  }
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding,
//  groups) -> output
Rule convolution_rule(const Function& function, const Node& node) {
  const Convolution c = Convolution::forward(function, node);
  const bool bias = value_arg(node, 2) != ValueId::None;
  const ConvolutionTerms t =
      convolution_terms(c, bias, bias && miscounts_bias(c));
  Rule rule =
      rule_from_terms({t.input, t.weight, t.bias}, {t.output}, function, node);
  set_windows(c, rule);
  return rule;
}

// (grad, input, weight, bias_sizes, stride, ..., groups, output_mask)
//   -> (input's, weight's, bias's gradient)
Rule convolution_backward_rule(const Function& function, const Node& node) {
  const Convolution c = Convolution::backward(function, node);
  const bool bias = flag_at(node, 10, 2);
  const ConvolutionTerms t =
      convolution_terms(c, bias, bias && miscounts_bias(c));
  Rule rule = rule_from_terms(
      {t.output, t.input, t.weight},
      {t.input, t.weight, t.bias},
      function,
      node);
  set_windows(c, rule);
  return rule;
}

// A split dim is padded by who splits it, not by the op.
void localize_convolution(
    const Convolution& c,
    const Rule& rule,
    Node& node,
    const std::vector<Piece>& pieces) {
  Dims padding;
  Dims output_padding;
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    const Piece& steps =
        pieces[static_cast<size_t>(find_factor(rule, cat("s", d)))];
    const bool split = steps.size != steps.whole;
    padding.push_back(split ? 0 : c.padding(d));
    output_padding.push_back(split ? 0 : c.output_padding(d));
  }
  const int groups = find_factor(rule, "g");
  set_arg(node, c.stride_position + 1, to_arg(padding));
  set_arg(node, c.stride_position + 4, to_arg(output_padding));
  if (groups >= 0) {
    set_arg(
        node,
        c.stride_position + 5,
        {pieces[static_cast<size_t>(groups)].size});
  }
}

void localize_forward(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  const Rule rule = convolution_rule(function, node);
  const Node whole = node;
  const Convolution c = Convolution::forward(function, whole);
  localize_convolution(c, rule, node, pieces);
}

void localize_backward(
    const Function& function, Node& node, const std::vector<Piece>& pieces) {
  const Rule rule = convolution_backward_rule(function, node);
  const Node whole = node;
  const Convolution c = Convolution::backward(function, whole);
  localize_convolution(c, rule, node, pieces);
  if (find_arg(node, 3) != nullptr) {
    int64_t channels = pieces[static_cast<size_t>(find_factor(rule, "o"))].size;
    const int groups = find_factor(rule, "g");
    channels *= groups < 0 ? 1 : pieces[static_cast<size_t>(groups)].size;
    set_arg(node, 3, to_arg({channels}));
  }
}

std::vector<TensorType> convolution_types(
    const Function& function, const Node& node) {
  const Convolution c = Convolution::forward(function, node);
  return {
      c.uses_channels_last() ? channels_last(c.input.dtype, c.output_sizes())
                             : make_type(c.input.dtype, c.output_sizes())};
}

std::vector<TensorType> convolution_backward_types(
    const Function& function, const Node& node) {
  const Convolution c = Convolution::backward(function, node);
  const auto in_format = [&](const TensorType& type) {
    return c.uses_channels_last() ? channels_last(type.dtype, type.sizes)
                                  : make_type(type.dtype, type.sizes);
  };
  std::vector<TensorType> types(3, undefined_type());
  if (flag_at(node, 10, 0)) {
    types[0] = in_format(c.input);
  }
  if (flag_at(node, 10, 1)) {
    types[1] = in_format(c.weight);
  }
  if (flag_at(node, 10, 2)) {
    types[2] =
        make_type(c.weight.dtype, {type_arg(function, node, 0).sizes.at(1)});
  }
  return types;
}

int64_t spatial(const Dims& sizes) {
  int64_t product = 1;
  for (size_t i = 2; i < sizes.size(); ++i) {
    product *= sizes[i];
  }
  return product;
}

// As torch.utils.flop_counter has it, which leaves padding and bias out.
int64_t convolution_flops(const Function& function, const Node& node) {
  const Convolution c = Convolution::forward(function, node);
  const int64_t steps =
      spatial(c.transposed() ? c.input.sizes : c.output_sizes());
  return 2 * c.input.sizes[0] * steps * element_count(c.weight);
}

// Likewise: for the weight's gradient it does not look at groups.
int64_t convolution_backward_flops(const Function& function, const Node& node) {
  const Convolution c = Convolution::backward(function, node);
  const Dims& grad = type_arg(function, node, 0).sizes;
  const int64_t steps = spatial(c.transposed() ? c.input.sizes : grad);
  int64_t flops = 0;
  if (flag_at(node, 10, 0)) {
    flops += 2 * grad[0] * steps * element_count(c.weight);
  }
  if (flag_at(node, 10, 1)) {
    flops += 2 * grad[0] * grad[1] * c.input.sizes[1] * steps *
             spatial(c.weight.sizes);
  }
  return flops;
}

OpDef convolution_op(
    std::string_view name, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = convolution_rule,
      .flops = convolution_flops,
      .scratch_bytes = ScratchCount{convolution_memory, convolution_same_from},
      .types = convolution_types,
      .localize = localize_forward,
      .expand = expand_convolution,
      .backward = "aten.convolution_backward",
      .examples = std::move(examples),
  };
}

}  // namespace

void add_convolution_ops(OpTable& ops) {
  ops.push_back(convolution_op(
      "aten.convolution",
      {"(f32[4, 4, 8, 8], f32[8, 4, 3, 3], none, [1, 1], [1, 1], [1, 1], "
       "false, [0, 0], 1)",
       "(f32[4, 4, 8, 8], f32[8, 4, 3, 3], f32[8], [2, 2], [1, 1], [1, 1], "
       "false, [0, 0], 1)",
       "(f32[4, 8, 16], f32[8, 1, 4], f32[8], [1], [3], [1], false, [0], 8)",
       "(f32[4, 8, 8, 8], f32[8, 2, 3, 3], none, [1, 1], [2, 2], [2, 2], "
       "false, [0, 0], 4)",
       "(f32[4, 8, 8, 8], f32[8, 16, 3, 3], none, [2, 2], [1, 1], [1, 1], "
       "true, [1, 1], 1)",
       "(f32[4, 4, 8, 8], f32[4, 8, 2, 2], f32[8], [2, 2], [0, 0], [1, 1], "
       "true, [0, 0], 1)",
       "(f32[4, 4, 4, 8, 8], f32[8, 4, 3, 3, 3], none, [1, 1, 1], [1, 1, 1], "
       "[1, 1, 1], false, [0, 0, 0], 1)"}));
  ops.push_back(convolution_op(
      "aten._convolution",
      {"(f32[4, 4, 8, 8], f32[8, 4, 3, 3], none, [1, 1], [1, 1], [1, 1], "
       "false, [0, 0], 1, false, false, true, true)"}));
  ops.push_back({
      .name = "aten.convolution_backward",
      .rule_of = convolution_backward_rule,
      .linear = Linear::First,
      .flops = convolution_backward_flops,
      .scratch_bytes =
          ScratchCount{
              convolution_backward_memory, convolution_backward_same_from},
      .types = convolution_backward_types,
      .localize = localize_backward,
      .expand = expand_convolution_backward,
      .input_gradient = InputGradient{.operand = 1, .mask_arg = 10},
      .examples =
          {"(f32[4, 8, 8, 8], f32[4, 4, 8, 8], f32[8, 4, 3, 3], none, [1, 1], "
           "[1, 1], [1, 1], false, [0, 0], 1, [true, true, false])",
           "(f32[4, 16, 16, 16], f32[4, 16, 32, 32], f32[16, 16, 3, 3], [16], "
           "[2, 2], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])",
           "(f32[4, 8, 16], f32[4, 8, 16], f32[8, 1, 3], [8], [1], [1], [1], "
           "false, [0], 8, [true, true, true])",
           "(f32[4, 8, 8, 8], f32[4, 4, 4, 4], f32[4, 8, 3, 3], none, [2, 2], "
           "[1, 1], [1, 1], true, [1, 1], 1, [true, true, false])",
           "(f32[4, 8, 8, 8], f32[4, 4, 4, 4], f32[4, 8, 2, 2], [8], [2, 2], "
           "[0, 0], [1, 1], true, [0, 0], 1, [true, true, true])"},
  });
}

}  // namespace weft
