// SPDX-License-Identifier: Apache-2.0
// Reading the arguments of a convolution, which the forward and the backward
// op lay out alike.
#pragma once

#include "ops/kernel_memory.h"
#include "ops/op_def.h"

namespace weft {

// Stride, padding and what follows stand one after the other from `stride` on.
struct Convolution {
  TensorType input;
  TensorType weight;
  // Positions of arguments.
  size_t stride_position = 3;
  const Node* node = nullptr;

  // Of a call of aten.convolution, or of aten.convolution_backward.
  static Convolution forward(const Function& function, const Node& node);
  static Convolution backward(const Function& function, const Node& node);

  size_t spatial_dims() const { return input.sizes.size() - 2; }
  int64_t stride(size_t dim) const;
  int64_t padding(size_t dim) const;
  int64_t dilation(size_t dim) const;
  bool transposed() const;
  int64_t output_padding(size_t dim) const;
  int64_t groups() const;
  int64_t kernel(size_t dim) const { return weight.sizes.at(dim + 2); }

  Dims output_sizes() const;
  // Whether PyTorch gives it to oneDNN, on a CPU; else it goes through columns,
  // the window of every step written out.
  bool uses_onednn() const;
  bool has_plain_windows() const;
  // Columns of volumes are row-major always.
  bool uses_channels_last() const;
};

// What oneDNN, or the fallback through columns, takes besides the results.
KernelMemory convolution_memory(const Function& function, const Node& node);
KernelMemory convolution_backward_memory(
    const Function& function, const Node& node);
int64_t convolution_same_from(const Function& function, const Node& node);
int64_t convolution_backward_same_from(
    const Function& function, const Node& node);

}  // namespace weft
