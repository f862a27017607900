// SPDX-License-Identifier: Apache-2.0
// Channels are worked on in blocks of 8. A row-major convolution gets copies of
// its operands in blocks, a channels-last one only of its weights. Where no
// kernel fits, the windows are written out as columns for a matrix product.
#include "ops/onednn_convolution.h"

#include "ops/kernel.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numeric>

namespace weft {
namespace {

using Space = Windows::Space;

constexpr int64_t kElementBytes = 4;
constexpr int64_t kBlock = 8;
constexpr int64_t kPageBytes = 4096;
// Every part of a scratchpad may be moved by this much to begin where it likes.
constexpr int64_t kMoveBytes = 128;

int64_t product(const Space& space) {
  return std::accumulate(
      space.begin(), space.end(), int64_t{1}, std::multiplies<>());
}

bool all_equal(const Space& space, int64_t value) {
  return std::all_of(
      space.begin(), space.end(), [&](int64_t v) { return v == value; });
}

int64_t parts(std::initializer_list<int64_t> bytes) {
  int64_t sum = 0;
  for (const int64_t each : bytes) {
    sum += each > 0 ? each + kMoveBytes : 0;
  }
  return sum;
}

bool has_stride(const Windows& w) { return !all_equal(w.stride, 1); }
bool is_dilated(const Windows& w) { return !all_equal(w.dilation, 1); }
bool is_grouped(const Windows& w) { return w.groups > 1; }

bool is_depthwise(const Windows& w) {
  return is_grouped(w) && w.in_channels == 1 && w.out_channels == 1;
}

int64_t all_in(const Windows& w) { return w.in_channels * w.groups; }
int64_t all_out(const Windows& w) { return w.out_channels * w.groups; }

// Elements from the first to the last that a window touches.
int64_t reach(const Windows& w, size_t d) {
  return (w.kernel[d] - 1) * w.dilation[d] + 1;
}

// By how much the last window reaches over the end; negative when it does not.
int64_t end_padding(const Windows& w, size_t d, int64_t out) {
  return (out - 1) * w.stride[d] + reach(w, d) - w.in[d] - w.padding[d];
}

int64_t end_padding(const Windows& w, size_t d) {
  return end_padding(w, d, w.out[d]);
}

// Some window lies in the padding altogether.
bool leaves_input(const Windows& w) {
  for (size_t d = 0; d < 3; ++d) {
    if (reach(w, d) <= std::max(w.padding[d], end_padding(w, d))) {
      return true;
    }
  }
  return false;
}

bool has_whole_blocks(const Windows& w) {
  return !is_grouped(w) ||
         (w.in_channels % kBlock == 0 && w.out_channels % kBlock == 0);
}

// Windows of one element that only choose which of the input are read.
bool is_pointwise(const Windows& w) {
  if (!all_equal(w.kernel, 1) || !all_equal(w.padding, 0) || is_grouped(w)) {
    return false;
  }
  bool divides = true;
  for (size_t d = 0; d < 3; ++d) {
    divides = divides && w.in[d] % w.stride[d] == 0;
  }
  return !has_stride(w) || (w.dims < 3 && divides);
}

// The elements that a pointwise convolution with strides reads, side by side.
int64_t chosen_bytes(const Windows& w) {
  return has_stride(w)
             ? kElementBytes * round_up(w.in_channels, kBlock) * product(w.out)
             : 0;
}

int64_t blocked_in(const Windows& w) {
  return kElementBytes * w.batch * round_up(all_in(w), kBlock) * product(w.in);
}

int64_t blocked_out(const Windows& w) {
  return kElementBytes * w.batch * round_up(all_out(w), kBlock) *
         product(w.out);
}

int64_t weights(const Windows& w, int64_t out, int64_t in) {
  return kElementBytes * w.groups * out * in * product(w.kernel);
}

// Kernels for channels-last tensors work on 8, 16, 24 or 32 channels at a time,
// whatever they hold for the fastest; 24 pads most channels most.
int64_t padded_channels(int64_t channels) {
  return std::max(
      round_up(channels, kBlock), channels > 32 ? round_up(channels, 24) : 0);
}

int64_t blocked_weights(const Windows& w) {
  return weights(
      w, round_up(w.out_channels, kBlock), round_up(w.in_channels, kBlock));
}

int64_t depthwise_weights(const Windows& w) {
  return kElementBytes * round_up(w.groups, kBlock) * product(w.kernel);
}

// All windows of one image, or of one slice of a volume, written out. When they
// do not fit into a cache, less is taken than this.
int64_t columns(const Windows& w) {
  if (all_equal(w.kernel, 1) && !has_stride(w) && w.in == w.out) {
    return 0;
  }
  return kElementBytes * w.in_channels * product(w.kernel) * w.out[1] *
         w.out[2];
}

// A list of the `count` matrices of one product.
int64_t batch_of_matrices(int64_t count) {
  constexpr int64_t kEntryBytes = 40;
  return round_up(round_up(count * kEntryBytes, kPageBytes), kEntryBytes);
}

int64_t padded_bias(const Windows& w, bool has_bias) {
  return has_bias && all_out(w) % kBlock != 0
             ? kElementBytes * round_up(all_out(w), kBlock)
             : 0;
}

// A row is computed in pieces of up to 7 elements: the padding at its ends must
// fit into one piece.
bool fits_pieces(const Windows& w) {
  const int64_t row = w.out[2];
  const auto padding_behind = [&](int64_t piece) {
    return std::max<int64_t>(0, end_padding(w, 2, row - row % piece));
  };
  int64_t piece = std::min<int64_t>(3, row);
  if (w.padding[2] > piece) {
    return false;
  }
  const int64_t behind = padding_behind(piece);
  if (behind > piece * w.stride[2] && row / piece > 1) {
    piece = std::min(
        {behind / w.stride[2] + row % piece, row, static_cast<int64_t>(7)});
    return piece >= std::max(w.padding[2], padding_behind(piece));
  }
  return true;
}

bool has_forward_kernel(const Windows& w) {
  const bool few = w.in_channels < kBlock;
  const bool is_long = w.kernel[2] > 7 && (w.padding[1] + w.padding[2] > 0) &&
                       (w.stride[1] != 1 || w.stride[2] != 1);
  return !leaves_input(w) && !is_long && fits_pieces(w) &&
         few == (all_in(w) < kBlock) &&
         (!is_grouped(w) || (w.out_channels % kBlock == 0 &&
                             (few || w.in_channels % kBlock == 0)));
}

// As fits_pieces, but a row of the input, in pieces of whole strides: the one
// with most products for 15 registers is taken.
bool fits_gradient_pieces(const Windows& w) {
  constexpr int64_t kRegisters = 15;
  const int64_t stride = w.stride[2];
  const int64_t row = w.in[2];
  const int64_t before = (reach(w, 2) - 1 - w.padding[2]) / stride * stride;
  const int64_t blocks = (w.in_channels + kBlock - 1) / kBlock;
  int64_t piece = 1;
  int64_t most = 0;
  for (int64_t together = 1; together <= 4; ++together) {
    for (int64_t width = stride;
         blocks % together == 0 &&
         width * together + width / stride <= kRegisters &&
         width < row + stride;
         width += stride) {
      const int64_t at_once = std::min(width, row);
      const int64_t products = (at_once + stride - 1) / stride * together;
      if ((before <= at_once || at_once == row) &&
          (products > most || (products == most && piece < at_once))) {
        piece = at_once;
        most = products;
      }
    }
  }
  const int64_t tail = row % piece;
  const int64_t behind = end_padding(w, 2);
  const int64_t over =
      std::max<int64_t>(0, (reach(w, 2) - 1 - behind - tail) / stride * stride);
  return most > 0 && over <= piece &&
         (row <= piece || (piece % stride == 0 && behind + tail >= 0));
}

bool has_gradient_kernel(const Windows& w) {
  bool both = false;
  for (size_t d = 0; d < 3; ++d) {
    both = both || (w.dilation[d] > 1 && w.stride[d] > 1);
  }
  const bool few = w.in_channels < kBlock && w.kernel[2] > 3 && w.stride[2] > 1;
  return !both && !few && w.stride[0] == 1 && w.stride[1] == w.stride[2] &&
         (w.channels_last || has_whole_blocks(w)) && !leaves_input(w) &&
         fits_gradient_pieces(w);
}

// Strides have kernels of their own for the input's gradient.
bool has_strided_kernel(const Windows& w) {
  return has_stride(w) && !is_dilated(w) &&
         (!is_grouped(w) || w.out_channels > kBlock);
}

int64_t strided_scratchpad(const Windows& w) {
  int64_t padded = round_up(w.out_channels, kBlock) * w.groups;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t over = reach(w, d) - 1;
    padded *= w.out[d] +
              std::max<int64_t>(0, over - w.padding[d]) / w.stride[d] +
              std::max<int64_t>(0, over - end_padding(w, d)) / w.stride[d];
  }
  int64_t bytes = batch_of_matrices(product(w.kernel)) +
                  round_up(padded, kPageBytes) * kElementBytes + 4 * kPageBytes;
  if (w.in[2] % w.stride[2] != 0) {
    bytes += round_up(w.in[2] * w.stride[2] * w.in_channels, kPageBytes) *
                 kElementBytes +
             kPageBytes;
  }
  return bytes;
}

bool has_weight_kernel(const Windows& w) {
  if (is_dilated(w) || w.padding[0] > 0 || end_padding(w, 0) > 0 ||
      w.kernel[0] > w.in[0] || w.kernel[1] > w.in[1] || w.kernel[2] >= 14) {
    return false;
  }
  for (size_t d = 1; d < 3; ++d) {
    if (std::max(w.padding[d], end_padding(w, d)) >= reach(w, d)) {
      return false;
    }
  }
  const bool three = w.in_channels == 3;
  return three == (all_in(w) == 3) &&
         (w.channels_last || !is_grouped(w) ||
          (w.out_channels % kBlock == 0 &&
           (three || w.in_channels % kBlock == 0)));
}

bool has_depthwise_weight_kernel(const Windows& w) {
  // Some row of windows lies wholly in the input.
  const int64_t rows_outside =
      (w.padding[1] > 0 ? 1 : 0) + (end_padding(w, 1) > 0 ? 1 : 0);
  bool is_small = is_depthwise(w) && w.dims < 3 && !is_dilated(w) &&
                  product(w.kernel) > 1 && w.kernel[1] <= w.in[1] &&
                  rows_outside < w.out[1];
  for (size_t d = 0; d < 3; ++d) {
    is_small = is_small && w.kernel[d] <= 3 && w.stride[d] <= 2 &&
               std::max(w.padding[d], end_padding(w, d)) <= w.kernel[d] / 2;
  }
  return is_small;
}

}  // namespace

KernelCopies forward_copies(const Windows& w, bool has_bias) {
  KernelCopies copies;
  const int64_t most_padding =
      w.channels_last ? 4 : std::min<int64_t>(4, w.out[2]);
  const bool has_depthwise_kernel = is_depthwise(w) && w.dims < 3 &&
                                    !leaves_input(w) &&
                                    w.padding[2] <= most_padding;
  if (w.channels_last) {
    if (has_depthwise_kernel ||
        (is_depthwise(w) && w.dims == 3 && !is_dilated(w))) {
      copies.weight = depthwise_weights(w);
    } else if (is_depthwise(w)) {
      copies.weight = w.weight_bytes();
      copies.scratchpad =
          parts({columns(w), kElementBytes * w.in_channels * product(w.in)});
      copies.is_product = true;
    } else {
      copies.weight =
          weights(w, padded_channels(w.out_channels), w.in_channels);
      copies.scratchpad = batch_of_matrices(product(w.kernel)) + kPageBytes;
    }
    return copies;
  }
  const int64_t bias = padded_bias(w, has_bias);
  const bool few = w.in_channels < kBlock;
  copies.in = blocked_in(w);
  copies.out = blocked_out(w);
  if (has_depthwise_kernel) {
    copies.weight = depthwise_weights(w);
    copies.scratchpad = parts({bias});
  } else if (is_depthwise(w) && w.dims == 3 && !is_dilated(w)) {
    return {
        .in = w.in_bytes(),
        .out = w.out_bytes(),
        .weight = depthwise_weights(w),
        .turns = true};
  } else if (is_pointwise(w)) {
    copies.weight = blocked_weights(w);
    copies.scratchpad = parts({bias, chosen_bytes(w)});
  } else if (!is_depthwise(w) && has_forward_kernel(w)) {
    copies.in = few ? 0 : copies.in;
    copies.weight = weights(
        w,
        round_up(w.out_channels, kBlock),
        few ? w.in_channels : round_up(w.in_channels, kBlock));
    copies.scratchpad = parts({is_grouped(w) ? 0 : bias});
  } else {
    return {
        .out = w.out_bytes(),
        .scratchpad = parts({columns(w)}),
        .is_product = true};
  }
  return copies;
}

KernelCopies input_gradient_copies(const Windows& w) {
  const bool depthwise = is_depthwise(w) && w.dims < 3 && !is_dilated(w);
  const int64_t strided_weights =
      weights(w, w.out_channels, padded_channels(w.in_channels));
  if (w.channels_last) {
    if (depthwise) {
      return {.weight = depthwise_weights(w)};
    }
    if (has_strided_kernel(w)) {
      return {.weight = strided_weights, .scratchpad = strided_scratchpad(w)};
    }
    if (!is_depthwise(w) && !has_stride(w) && !leaves_input(w)) {
      return {
          .weight = strided_weights,
          .scratchpad =
              batch_of_matrices(product(w.kernel)) + kPageBytes + kMoveBytes};
    }
    if (has_gradient_kernel(w)) {
      return {.weight = blocked_weights(w)};
    }
    const int64_t slices = columns(w) * w.out[0];
    const int64_t group =
        is_grouped(w) ? kElementBytes * w.in_channels * product(w.in) : 0;
    return {
        .weight = w.weight_bytes(),
        .scratchpad = parts({slices, group}),
        .is_product = true};
  }
  KernelCopies copies = {
      .in = blocked_in(w), .out = blocked_out(w), .weight = blocked_weights(w)};
  if (depthwise) {
    copies.weight = depthwise_weights(w);
    return copies;
  }
  if (!is_depthwise(w) && has_strided_kernel(w)) {
    // Where one of both dims has one element, both plain orders are the same.
    const bool is_plain = all_out(w) == 1 || product(w.out) == 1;
    return {
        .in = w.in_bytes(),
        .out = is_plain ? 0 : w.out_bytes(),
        .weight = strided_weights,
        .scratchpad = strided_scratchpad(w),
        .turns = all_in(w) > 1 && product(w.in) > 1};
  }
  if (is_pointwise(w)) {
    copies.scratchpad = parts({chosen_bytes(w)});
    return copies;
  }
  if (!is_depthwise(w) && has_gradient_kernel(w)) {
    return copies;
  }
  return {
      .in = w.in_bytes(),
      .scratchpad = parts({columns(w)}),
      .is_product = true};
}

KernelCopies weight_gradient_copies(const Windows& w, bool has_bias) {
  const int64_t bias = is_grouped(w) ? 0 : padded_bias(w, has_bias);
  KernelCopies copies;
  if (!w.channels_last) {
    copies.in = blocked_in(w);
    copies.out = blocked_out(w);
  }
  if (has_depthwise_weight_kernel(w)) {
    copies.weight = depthwise_weights(w);
  } else if (is_pointwise(w)) {
    copies.weight = blocked_weights(w);
    copies.scratchpad = parts({w.channels_last ? 0 : bias, chosen_bytes(w)});
  } else if (has_weight_kernel(w)) {
    const bool three = w.in_channels == 3;
    copies.in = three ? 0 : copies.in;
    copies.weight = weights(
        w,
        round_up(w.out_channels, kBlock),
        three ? 3 : round_up(w.in_channels, kBlock));
    const int64_t padded =
        has_bias && w.out_channels % kBlock != 0
            ? kElementBytes * w.groups * round_up(w.out_channels, kBlock)
            : 0;
    copies.scratchpad = parts({w.channels_last ? padded : bias});
  } else {
    // The sums are kept four times.
    const int64_t image =
        w.channels_last ? kElementBytes * w.in_channels * product(w.in) : 0;
    return {
        .weight = w.weight_bytes(),
        .scratchpad = parts({4 * w.weight_bytes(), columns(w), image}),
        .is_product = true};
  }
  return copies;
}

Windows::Windows(const Convolution& c)
    : batch(c.input.sizes[0]),
      groups(c.groups()),
      dims(c.spatial_dims()),
      channels_last(c.uses_channels_last()) {
  const Dims output = c.output_sizes();
  const Dims& input_sizes = c.transposed() ? output : c.input.sizes;
  const Dims& output_sizes = c.transposed() ? c.input.sizes : output;
  in_channels = input_sizes[1] / groups;
  out_channels = output_sizes[1] / groups;
  for (size_t d = 0; d < dims; ++d) {
    const size_t at = 3 - dims + d;
    in[at] = input_sizes[d + 2];
    out[at] = output_sizes[d + 2];
    kernel[at] = c.kernel(d);
    stride[at] = c.stride(d);
    dilation[at] = c.dilation(d);
    padding[at] = c.padding(d);
  }
}

int64_t Windows::in_bytes() const {
  return kElementBytes * batch * all_in(*this) * product(in);
}

int64_t Windows::out_bytes() const {
  return kElementBytes * batch * all_out(*this) * product(out);
}

int64_t Windows::weight_bytes() const {
  return weights(*this, out_channels, in_channels);
}

}  // namespace weft
