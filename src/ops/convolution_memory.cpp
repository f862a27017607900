// SPDX-License-Identifier: Apache-2.0
// Memory that convolutions take on a CPU besides their results, as measured
// with PyTorch 2.13 on one thread of an AVX2 machine.
//
// oneDNN works on channels in blocks of 8: row-major tensors are reordered into
// blocks and the result is reordered back, one after the other. What is
// channels-last already is used as it is, but for the weights. Types without
// vector instructions (bf16 here) and small single images go through columns:
// the window of every step written out.
#include "ops/call.h"
#include "ops/convolution.h"
#include "ops/kernel.h"

#include <algorithm>

namespace weft {

namespace {

// Rows of tiles that the channels-last kernels keep.
constexpr int64_t kTiles = 8216;

bool is_pointwise(const Convolution& c) {
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    if (c.kernel(d) != 1 || c.stride(d) != 1 || c.padding(d) != 0) {
      return false;
    }
  }
  return c.groups() == 1 && !c.transposed();
}

bool has_stride(const Convolution& c) {
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    if (c.stride(d) != 1) {
      return true;
    }
  }
  return false;
}

bool is_dilated(const Convolution& c) {
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    if (c.dilation(d) != 1) {
      return true;
    }
  }
  return false;
}

bool uses_columns(const Convolution& c) {
  if (c.input.dtype != DType::F32) {
    return true;
  }
  const bool wide = c.spatial_dims() == 2 && c.kernel(0) > 3 && c.kernel(1) > 3;
  return c.groups() == 1 && !wide && c.input.sizes[0] == 1 &&
         element_count(c.input) <= 20480;
}

int64_t columns(const Convolution& c) {
  if (is_pointwise(c)) {
    return 0;
  }
  // One sample at a time when the window is dilated.
  const Dims output = c.output_sizes();
  const bool t = c.transposed();
  int64_t count = is_dilated(c) ? 1 : c.input.sizes[0];
  count *= (t ? output[1] : c.input.sizes[1]) / c.groups();
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    count *= c.kernel(d) * (t ? c.input.sizes[d + 2] : output[d + 2]);
  }
  return count * element_bytes(c.input.dtype);
}

// The weight's gradient of these windows is a matrix product over the columns
// of one image; 0 for the others. Weights are kept four times meanwhile.
int64_t weight_product(const Convolution& c) {
  bool odd = is_dilated(c) || c.spatial_dims() == 3;
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    odd = odd || c.kernel(d) >= 14 || c.padding(d) > c.kernel(d) / 2;
  }
  if (!odd || c.transposed()) {
    return 0;
  }
  const Dims output = c.output_sizes();
  int64_t count = c.input.sizes[1] / c.groups();
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    const bool by_slice = c.spatial_dims() == 3 && d == 0;
    count *= c.kernel(d) * (by_slice ? 1 : output[d + 2]);
  }
  return 4 * dense_bytes(c.weight) + count * element_bytes(c.input.dtype) + 256;
}

// A tensor of [batch, channels, ...] with its channels in blocks.
int64_t blocked_bytes(const Dims& sizes, DType dtype) {
  const int64_t channels = sizes[1];
  int64_t count = sizes[0] * round_up(channels, 8);
  for (size_t d = 2; d < sizes.size(); ++d) {
    count *= sizes[d];
  }
  return count * element_bytes(dtype);
}

// Few channels of the input are not reordered: below 8 in forward, up to 3 in
// the weight's gradient.
constexpr int64_t kFewForward = 7;
constexpr int64_t kFewBackward = 3;

int64_t blocked_input(const Convolution& c, int64_t few) {
  const int64_t channels = c.input.sizes[1] / c.groups();
  const bool depthwise = channels == 1 && c.groups() > 1;
  return channels <= few && !depthwise
             ? 0
             : blocked_bytes(c.input.sizes, c.input.dtype);
}

// Output channels come in blocks of 8, and so do more than a few input
// channels. Those of a group of one stay single.
int64_t blocked_weight(const Convolution& c, int64_t few) {
  int64_t inner = c.weight.sizes[1];
  const bool stays = inner <= few || (inner == 1 && c.groups() > 1);
  inner = stays ? inner : round_up(inner, 8);
  int64_t count = round_up(c.weight.sizes[0], 8) * inner;
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    count *= c.kernel(d);
  }
  return count * element_bytes(c.weight.dtype);
}

// Copies made so that every operand has the format of the convolution.
int64_t format_copy(const Convolution& c, const TensorType& type) {
  const TensorType wanted = c.uses_channels_last()
                                ? channels_last(type.dtype, type.sizes)
                                : make_type(type.dtype, type.sizes);
  return type == wanted ? 0 : dense_bytes(type);
}

}  // namespace

int64_t convolution_scratch(const Function& function, const Node& node) {
  const Convolution c = Convolution::forward(function, node);
  const int64_t copies = format_copy(c, c.input) + format_copy(c, c.weight);
  if (uses_columns(c)) {
    // Groups are computed one by one, then joined.
    const TensorType output = make_type(c.input.dtype, c.output_sizes());
    return copies + (c.groups() > 1 ? dense_bytes(output) : columns(c));
  }
  if (is_pointwise(c)) {
    return copies;
  }
  const int64_t weight = blocked_weight(c, kFewForward);
  if (c.uses_channels_last()) {
    return copies + weight + kTiles;
  }
  const Dims sizes = c.output_sizes();
  const DType dtype = c.input.dtype;
  const int64_t output = dense_bytes(make_type(dtype, sizes));
  const int64_t blocked = blocked_bytes(sizes, dtype);
  const int64_t input = blocked_input(c, kFewForward);
  // First the product, in blocks; then the result beside it.
  const int64_t product = input + weight + blocked;
  const int64_t reorder = blocked + output * (c.transposed() ? 2 : 1);
  return copies + std::max(product, reorder) - output;
}

int64_t convolution_backward_scratch(
    const Function& function, const Node& node) {
  const Convolution c = Convolution::backward(function, node);
  const TensorType& grad = type_arg(function, node, 0);
  const int64_t copies =
      format_copy(c, c.input) + format_copy(c, c.weight) + format_copy(c, grad);
  if (uses_columns(c)) {
    const bool joined = c.groups() > 1 && flag_at(node, 10, 0);
    return copies + (joined ? dense_bytes(c.input) : columns(c));
  }
  const bool for_input = flag_at(node, 10, 0);
  const bool for_weight = flag_at(node, 10, 1);
  const int64_t weight_result = for_weight ? dense_bytes(c.weight) : 0;
  const int64_t bias_result =
      flag_at(node, 10, 2) ? grad.sizes[1] * element_bytes(grad.dtype) : 0;
  if (is_pointwise(c)) {
    // Of volumes, the input's gradient is written twice, before the others.
    const bool twice = for_input && c.spatial_dims() == 3;
    return copies +
           (twice ? std::max<int64_t>(
                        0, dense_bytes(c.input) - weight_result - bias_result)
                  : 0);
  }
  const int64_t weight = blocked_weight(c, kFewBackward);
  if (c.uses_channels_last()) {
    return copies +
           std::max(
               for_input ? weight + kTiles - weight_result : 0,
               for_weight ? std::max(2 * weight, weight_product(c)) : 0);
  }
  const DType dtype = c.input.dtype;
  const int64_t input = dense_bytes(c.input);
  const int64_t blocked_grad = blocked_bytes(grad.sizes, dtype);
  const int64_t input_result = for_input ? input : 0;
  // Live bytes at four moments; the last two keep the input's gradient.
  int64_t peak = 0;
  if (for_input) {
    const int64_t made = blocked_bytes(c.input.sizes, dtype);
    peak = std::max(
        blocked_grad + blocked_weight(c, 0) + made,
        made + input * (has_stride(c) ? 2 : 1));
  }
  if (for_weight) {
    const int64_t product = weight_product(c);
    const int64_t operands =
        product > 0 ? product : blocked_grad + blocked_input(c, kFewBackward);
    peak = std::max(
        {peak,
         input_result + weight + operands + bias_result,
         input_result + weight + weight_result + 2 * bias_result});
  }
  return copies + peak - input_result - weight_result - bias_result;
}

}  // namespace weft
