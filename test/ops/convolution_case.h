// SPDX-License-Identifier: Apache-2.0
// Convolutions as examples of the op table, over grids of shapes.
#pragma once

#include "graph/tensor_type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct ConvolutionCase {
  size_t dims = 2;
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  // The same in every dim.
  int64_t space = 8;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  bool channels_last = false;
  bool has_bias = false;
  bool transposed = false;
  int64_t output_padding = 0;
  DType dtype = DType::F32;

  int64_t out_space() const;
  // Whether there is a result.
  bool is_valid() const;
  // Products of two numbers, about.
  double work() const;

  // The arguments of aten.convolution and of aten.convolution_backward.
  std::string forward() const;
  std::string backward() const;
};

// All combinations of a few values each, but for those that take long.
std::vector<ConvolutionCase> convolution_grid();
// The same for transposed ones, and for bf16.
std::vector<ConvolutionCase> transposed_grid();
std::vector<ConvolutionCase> half_precision_grid();

}  // namespace weft
