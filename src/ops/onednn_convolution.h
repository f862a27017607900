// SPDX-License-Identifier: Apache-2.0
// What oneDNN takes for a convolution of f32 on a CPU with AVX2 and one thread,
// as seen with PyTorch 2.13 (oneDNN 3.12) by its verbose output and by the
// allocator. It has many kernels, each for some shapes and each with operands
// in an order of its own; what is not in that order is copied.
#pragma once

#include "ops/convolution.h"

#include <array>
#include <cstdint>

namespace weft {

// A convolution that is not transposed, with three dims of space: those that
// are missing come first and have one element.
struct Windows {
  using Space = std::array<int64_t, 3>;

  int64_t batch = 1;
  int64_t groups = 1;
  // Of one group.
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  size_t dims = 2;
  Space in = {1, 1, 1};
  Space out = {1, 1, 1};
  Space kernel = {1, 1, 1};
  Space stride = {1, 1, 1};
  Space dilation = {1, 1, 1};
  Space padding = {0, 0, 0};
  bool channels_last = false;

  // The convolution of which a transposed one is the backward: what it reads
  // and what it makes change places.
  explicit Windows(const Convolution& c);

  int64_t in_bytes() const;
  int64_t out_bytes() const;
  int64_t weight_bytes() const;
};

// Bytes of what one kernel takes. A copy of 0 bytes is none.
struct KernelCopies {
  int64_t in = 0;
  int64_t out = 0;
  int64_t weight = 0;
  int64_t scratchpad = 0;
  // The result comes out as one of the plain orders, but not as the one that
  // is asked for: one copy more.
  bool turns = false;
  // A matrix product over the windows written out; reads operands as they are.
  bool is_product = false;
};

KernelCopies forward_copies(const Windows& w, bool has_bias);
KernelCopies input_gradient_copies(const Windows& w);
KernelCopies weight_gradient_copies(const Windows& w, bool has_bias);

}  // namespace weft
