// SPDX-License-Identifier: Apache-2.0
// A convolution apart from its bias: the channels that it sums over can then be
// split, for the bias is added once, after the sum.
#include "ops/arithmetic.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/kernel.h"

namespace weft {
namespace {

// Without a second channel to sum over there is nothing to gain.
bool sums_channels(
    NodeBuilder& builder, ValueId weight, const Node& node, size_t transposed) {
  return builder.type(weight).sizes.at(1) > 1 &&
         !bool_arg(node, transposed, false);
}

}  // namespace

// (input, weight, bias, stride, padding, dilation, transposed, ...)
Expanded expand_convolution(NodeBuilder& builder, const Node& node) {
  const ValueId bias = value_arg(node, 2);
  if (bias == ValueId::None ||
      !sums_channels(builder, value_arg(node, 1), node, 6)) {
    return {};
  }
  const TensorType type = builder.type(node.results.front());
  Node bare = node;
  set_arg(bare, 2, {None{}});
  const ValueId output = builder.call(bare, {type}).front();
  Dims channels(type.sizes.size() - 1, 1);
  channels[0] = type.sizes.at(1);
  return in_types_of(
      builder, node, {add(builder, output, view(builder, bias, channels))});
}

// (grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
//  output_padding, groups, output_mask)
Expanded expand_convolution_backward(NodeBuilder& builder, const Node& node) {
  if (!flag_at(node, 10, 2) ||
      !sums_channels(builder, value_arg(node, 2), node, 7)) {
    return {};
  }
  Node bare = node;
  set_arg(bare, 3, {None{}});
  const bool input = flag_at(node, 10, 0);
  const bool weight = flag_at(node, 10, 1);
  set_arg(bare, 10, {Arg::List{{input}, {weight}, {false}}});
  Expanded results(3, ValueId::None);
  if (input || weight) {
    const Expanded both = builder.call(
        bare,
        {builder.type(node.results[0]),
         builder.type(node.results[1]),
         undefined_type()});
    results[0] = input ? both[0] : ValueId::None;
    results[1] = weight ? both[1] : ValueId::None;
  }
  const ValueId grad = widened(builder, value_arg(node, 0));
  Dims dims = {0};
  for (size_t d = 2; d < builder.type(grad).sizes.size(); ++d) {
    dims.push_back(static_cast<int64_t>(d));
  }
  const Dims channels = builder.type(node.results[2]).sizes;
  results[2] = view(builder, sum_over(builder, grad, dims), channels);
  return in_types_of(builder, node, results);
}

}  // namespace weft
