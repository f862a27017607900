// SPDX-License-Identifier: Apache-2.0
// Memory that convolutions take on a CPU besides their results, in the order in
// which they take it, as measured with PyTorch 2.13 on one thread of an AVX2
// machine. What is observed on the machine at hand comes first (ask_kernels).
//
// Most go to oneDNN (onednn_convolution.h). Types without vector instructions
// (bf16 here), small single images and most windows of one element go through
// columns: the window of every step written out.
#include "ops/call.h"
#include "ops/convolution.h"
#include "ops/kernel.h"
#include "ops/onednn_convolution.h"

#include <utility>
#include <vector>

namespace weft {

namespace {

// Windows of one element of fewer images go through columns.
constexpr int64_t kManyImages = 16;

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

// Windows of one element: the columns would be the input.
bool is_plain(const Convolution& c) {
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    if (c.kernel(d) != 1 || c.padding(d) != 0) {
      return false;
    }
  }
  return !has_stride(c) && !is_dilated(c);
}

bool is_pointwise(const Convolution& c) {
  return is_plain(c) && c.groups() == 1 && !c.transposed();
}

// How many times columns are made: groups are computed one by one, but for
// volumes whose windows have no gaps.
int64_t rounds(const Convolution& c) {
  const bool at_once =
      c.spatial_dims() == 3 && !c.transposed() && !is_dilated(c);
  return at_once ? 1 : c.groups();
}

// Windows of one element need none, but where all groups are made at once.
bool needs_columns(const Convolution& c) {
  return !is_plain(c) || rounds(c) != c.groups();
}

// Of one round. One sample at a time when the window is dilated, and for the
// gradients of a transposed one, and where volumes are transposed.
int64_t columns(const Convolution& c, bool for_gradient = false) {
  if (!needs_columns(c) && !c.transposed()) {
    return 0;
  }
  const Dims output = c.output_sizes();
  const bool t = c.transposed();
  const bool one = t ? for_gradient || c.spatial_dims() == 3 : is_dilated(c);
  int64_t count = one ? 1 : c.input.sizes[0];
  count *= (t ? output[1] : c.input.sizes[1]) / rounds(c);
  for (size_t d = 0; d < c.spatial_dims(); ++d) {
    count *= c.kernel(d) * (t ? c.input.sizes[d + 2] : output[d + 2]);
  }
  return count * element_bytes(c.input.dtype);
}

// Copies made so that every operand has the format of the convolution.
int64_t format_copy(const Convolution& c, const TensorType& type) {
  const TensorType wanted = c.uses_channels_last()
                                ? channels_last(type.dtype, type.sizes)
                                : make_type(type.dtype, type.sizes);
  return type == wanted ? 0 : dense_bytes(type);
}

// A transposed convolution is another's backward: what that one reads and makes
// change places, its scratchpad is part of another, and a bias is added to a
// copy of the result.
KernelCopies transposed(KernelCopies copies) {
  std::swap(copies.in, copies.out);
  copies.scratchpad += copies.scratchpad > 0 ? 128 : 0;
  return copies;
}

KernelCopies forward_of_transposed(const Windows& w, bool has_bias) {
  KernelCopies copies = transposed(input_gradient_copies(w));
  bool divides = true;
  bool has_strides = false;
  for (size_t d = 0; d < 3; ++d) {
    divides = divides && w.in[d] % w.stride[d] == 0;
    has_strides = has_strides || w.stride[d] > 1;
  }
  const bool adds_bias = w.channels_last && copies.scratchpad > 0 &&
                         !copies.is_product && (divides || !has_strides);
  if (has_bias && !adds_bias) {
    copies.scratchpad += (w.channels_last ? w.in_bytes() : copies.out) + 128;
  }
  return copies;
}

// A part of the channels, which is not one stretch of memory where there are
// several images or channels come last.
int64_t group_copy(const Convolution& c, int64_t whole_bytes) {
  return rounds(c) > 1 && (c.input.sizes[0] > 1 || c.uses_channels_last())
             ? whole_bytes / rounds(c)
             : 0;
}

// One tensor a group, each with a place of its own.
int64_t part_bytes(const Convolution& c, int64_t whole_bytes) {
  // Places begin at multiples of this (program/live_bytes.h).
  constexpr int64_t kPlaceBytes = 64;
  return rounds(c) * round_up(whole_bytes / rounds(c), kPlaceBytes);
}

// What one group takes beside its result. Of a transposed volume also the input
// once more, and ones by which a bias is added.
std::vector<int64_t> column_temporaries(const Convolution& c) {
  std::vector<int64_t> bytes = {columns(c)};
  if (c.transposed() && c.spatial_dims() == 3) {
    const Dims output = c.output_sizes();
    const int64_t elements = output[2] * output[3] * output[4];
    bytes.push_back(dense_bytes(c.input) / rounds(c));
    bytes.push_back(elements * element_bytes(c.input.dtype));
  }
  return bytes;
}

// The gradient of a bias is a sum; of half precision, of a copy in f32.
std::vector<int64_t> bias_temporaries(
    const Convolution& c, int64_t output_bytes, int64_t bias_bytes) {
  const DType dtype = c.input.dtype;
  const DType sums = accumulate_type(dtype);
  if (bias_bytes == 0 || sums == dtype) {
    return {};
  }
  const int64_t ratio = element_bytes(sums) / element_bytes(dtype);
  return {ratio * output_bytes / rounds(c), ratio * bias_bytes / rounds(c)};
}

// Groups are computed one by one, then joined: while one is, the parts of those
// before are there.
void run_groups(const Convolution& c, int64_t output_bytes, KernelRun& run) {
  const auto parts = run.take(part_bytes(c, output_bytes));
  const auto copy = run.take(group_copy(c, dense_bytes(c.input)));
  run.give_back(run.take_all(column_temporaries(c)));
  run.give_back({copy});
  run.make(0);
  run.give_back({parts});
}

void run_groups_backward(
    const Convolution& c,
    bool for_input,
    bool for_weight,
    int64_t output_bytes,
    int64_t bias_bytes,
    KernelRun& run) {
  const auto parts = run.take_all(
      {for_input ? part_bytes(c, dense_bytes(c.input)) : 0,
       for_weight ? part_bytes(c, dense_bytes(c.weight)) : 0,
       part_bytes(c, bias_bytes)});
  const auto copies = run.take_all(
      {group_copy(c, output_bytes),
       group_copy(c, dense_bytes(c.input)),
       bias_bytes / rounds(c)});
  const auto sums = run.take_all(bias_temporaries(c, output_bytes, bias_bytes));
  const bool together = c.transposed() && c.spatial_dims() == 3;
  if (!together) {
    run.give_back(sums);
  }
  run.give_back(
      {run.take(needs_columns(c) ? columns(c, /*for_gradient=*/true) : 0)});
  if (together) {
    run.give_back(sums);
  }
  run.give_back(copies);
  run.make(0);
  run.make(1);
  run.make(2);
  run.give_back(parts);
}

void run_columns(const Convolution& c, KernelRun& run) {
  if (c.transposed() || is_dilated(c)) {
    run.make(0);
    run.take_all(column_temporaries(c));
  } else {
    run.take(columns(c));
    run.make(0);
  }
}

void run_columns_backward(
    const Convolution& c,
    bool for_input,
    bool for_weight,
    int64_t output_bytes,
    int64_t bias_bytes,
    KernelRun& run) {
  const int64_t bytes =
      needs_columns(c) ? columns(c, /*for_gradient=*/true) : 0;
  const std::vector<int64_t> sums =
      c.uses_channels_last() ? std::vector<int64_t>()
                             : bias_temporaries(c, output_bytes, bias_bytes);
  run.make(0);
  if (c.transposed() || (c.spatial_dims() == 3 && !is_dilated(c))) {
    // First for the input, then anew for the weight; a volume's gradient is
    // written twice even where there are no windows.
    const bool twice = is_pointwise(c) && c.spatial_dims() == 3;
    const int64_t input_bytes = twice ? dense_bytes(c.input) : bytes;
    run.give_back({run.take(for_input ? input_bytes : 0)});
    run.make(2);
    // A transposed volume has its columns and the sum at one time.
    const bool together = c.transposed() && c.spatial_dims() == 3;
    const auto taken = run.take_all(sums);
    if (!together) {
      run.give_back(taken);
    }
    run.make(1);
    run.take(for_weight ? bytes : 0);
    return;
  }
  run.make(is_dilated(c) ? 1 : 2);
  if (!is_dilated(c)) {
    run.give_back(run.take_all(sums));
  }
  run.make(is_dilated(c) ? 2 : 1);
  run.take(for_weight || is_dilated(c) ? bytes : 0);
  run.take(is_dilated(c) ? bias_bytes : 0);
}

// The gradient of the input; its result is number 0.
void run_input_gradient(
    const Convolution& c, const Windows& w, KernelRun& run) {
  const KernelCopies copies = c.transposed()
                                  ? transposed(forward_copies(w, false))
                                  : input_gradient_copies(w);
  if (w.channels_last) {
    run.make(0);
    const auto kept =
        run.take_all({copies.out, copies.weight, copies.scratchpad});
    run.give_back(kept);
    return;
  }
  auto kept = run.take_all({copies.out, copies.weight});
  const auto gradient = run.take(copies.in);
  kept.push_back(run.take(copies.scratchpad));
  run.give_back(kept);
  if (copies.turns) {
    const auto turned = run.take(dense_bytes(c.input));
    run.make(0);
    run.give_back({turned});
  } else {
    run.make(0);
  }
  run.give_back({gradient});
}

// The gradients of weight and bias; their results are numbers 1 and 2.
void run_weight_gradient(
    const Convolution& c,
    const Windows& w,
    bool for_weight,
    int64_t bias_bytes,
    KernelRun& run) {
  const bool has_bias = bias_bytes > 0;
  const KernelCopies copies = c.transposed()
                                  ? transposed(weight_gradient_copies(w, false))
                                  : weight_gradient_copies(w, has_bias);
  const int64_t bytes = dense_bytes(c.weight);
  auto kept = run.take_all({copies.out, copies.in});
  const auto gradient = run.take(copies.weight);
  kept.push_back(run.take(copies.scratchpad));
  const auto bias = run.take(bias_bytes);
  run.give_back(kept);
  if (has_bias) {
    run.make(2);
  }
  // Weights in another order are turned, once more from a matrix.
  const auto turned = run.take(w.channels_last ? bytes : 0);
  run.give_back({run.take(w.channels_last && copies.is_product ? bytes : 0)});
  if (for_weight) {
    run.make(1);
  } else {
    run.give_back({run.take(bytes)});
  }
  run.give_back({turned, gradient, bias});
}

}  // namespace

// For which PyTorch chooses by the batch: the last two dims decide, of volumes
// too; a row is an image of height 1.
bool Convolution::has_plain_windows() const {
  const size_t dims = spatial_dims();
  return kernel(dims - 1) == 1 && (dims == 1 || kernel(dims - 2) == 1) &&
         !has_stride(*this) && !is_dilated(*this);
}

bool Convolution::uses_onednn() const {
  const Convolution& c = *this;
  if (c.input.dtype != DType::F32) {
    return false;
  }
  const size_t dims = c.spatial_dims();
  const int64_t wide = c.kernel(dims - 1);
  const int64_t high = dims == 1 ? 1 : c.kernel(dims - 2);
  const Dims& sizes = c.input.sizes;
  const int64_t batch = sizes[0];
  if (c.has_plain_windows() && batch < kManyImages) {
    return false;
  }
  bool has_large_padding = false;
  for (size_t d = 0; d < dims; ++d) {
    has_large_padding = has_large_padding || c.output_padding(d) >= c.stride(d);
  }
  if (c.transposed() && has_large_padding) {
    return false;
  }
  const int64_t first_two = sizes[2] * (dims == 1 ? 1 : sizes[3]);
  return c.groups() > 1 || (wide > 3 && high > 3) || batch > 1 ||
         batch * sizes[1] * first_two > 20480;
}

namespace {

int64_t same_from(const Convolution& c) {
  const int64_t batch = c.input.sizes[0];
  return batch == 1                                      ? 1
         : batch >= kManyImages && c.has_plain_windows() ? kManyImages
                                                         : 2;
}

}  // namespace

int64_t convolution_same_from(const Function& function, const Node& node) {
  return same_from(Convolution::forward(function, node));
}

int64_t convolution_backward_same_from(
    const Function& function, const Node& node) {
  return same_from(Convolution::backward(function, node));
}

KernelMemory convolution_memory(const Function& function, const Node& node) {
  const Convolution c = Convolution::forward(function, node);
  const int64_t input_copy = format_copy(c, c.input);
  const int64_t weight_copy = format_copy(c, c.weight);
  const TensorType output = make_type(c.input.dtype, c.output_sizes());
  KernelRun run(1);
  if (!c.uses_onednn()) {
    run.take_all({input_copy, weight_copy});
    if (rounds(c) > 1) {
      run_groups(c, dense_bytes(output), run);
    } else {
      run_columns(c, run);
    }
    return run.finish();
  }
  const bool has_bias = value_arg(node, 2) != ValueId::None;
  const Windows w(c);
  const KernelCopies copies = c.transposed()
                                  ? forward_of_transposed(w, has_bias)
                                  : forward_copies(w, has_bias);
  run.take_all({input_copy, weight_copy});
  if (w.channels_last) {
    run.make(0);
    run.give_back(run.take_all({copies.scratchpad, copies.in, copies.weight}));
    return run.finish();
  }
  const auto kept = run.take_all({copies.scratchpad, copies.in, copies.weight});
  const auto product = run.take(copies.out);
  run.give_back(kept);
  if (copies.turns) {
    const auto turned = run.take(dense_bytes(output));
    run.make(0);
    run.give_back({turned});
  } else {
    run.make(0);
  }
  run.give_back({product});
  return run.finish();
}

KernelMemory convolution_backward_memory(
    const Function& function, const Node& node) {
  const Convolution c = Convolution::backward(function, node);
  const TensorType& grad = type_arg(function, node, 0);
  const bool for_input = flag_at(node, 10, 0);
  const bool for_weight = flag_at(node, 10, 1);
  const int64_t bias_bytes =
      flag_at(node, 10, 2) ? grad.sizes[1] * element_bytes(grad.dtype) : 0;
  const std::vector<int64_t> format_copies = {
      format_copy(c, grad), format_copy(c, c.input), format_copy(c, c.weight)};
  KernelRun run(3);
  run.take_all(format_copies);
  if (!c.uses_onednn()) {
    if (rounds(c) > 1) {
      run_groups_backward(
          c, for_input, for_weight, dense_bytes(grad), bias_bytes, run);
    } else {
      run_columns_backward(
          c, for_input, for_weight, dense_bytes(grad), bias_bytes, run);
    }
    return run.finish();
  }
  const Windows w(c);
  if (for_input) {
    run_input_gradient(c, w, run);
  }
  if (for_weight || bias_bytes > 0) {
    run_weight_gradient(c, w, for_weight, bias_bytes, run);
  }
  return run.finish();
}

}  // namespace weft
