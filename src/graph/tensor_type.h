// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/dtype.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class Scanner;

using Dims = std::vector<int64_t>;

// The type of a value: `f32[8, 128, 768]`, and `f32[8, 16]{1, 8}` when its
// strides (in elements) are not the row-major ones.
struct TensorType {
  DType dtype = DType::F32;
  Dims sizes;
  // Empty means row-major. Never holds the row-major strides themselves, so
  // that equal types compare equal.
  Dims strides;

  bool operator==(const TensorType&) const = default;
};

// Drops `strides` when they are the row-major ones (empty tensors do not count,
// nor do dims of size 1). Only where dims of size 1 make PyTorch take a tensor
// for channels last, as f32[8, 64, 1, 1]{64, 1, 64, 64}, the strides stay: it
// chooses the kernel of a convolution by them.
TensorType make_type(DType dtype, Dims sizes, Dims strides = {});

// Whether the elements lie in row-major order without gaps.
bool is_contiguous(const TensorType& type);

// Whether PyTorch takes a tensor of this type for channels last (N, spatial
// dims, C in memory; 4 or 5 dims). One that is row-major, too (one channel, or
// one pixel) is told by its strides (see make_type).
bool is_channels_last(const TensorType& type);
TensorType channels_last(DType dtype, Dims sizes);

Dims row_major_strides(const Dims& sizes);
// The strides, written out even when row-major.
Dims strides_of(const TensorType& type);
// The dims from the outermost in memory to the innermost; of equal strides the
// earlier dim is further out.
std::vector<size_t> memory_order(const Dims& strides);

int64_t element_count(const TensorType& type);

// Bytes from the first to the last element that the strides reach: what a
// fresh storage for this type takes. Expanded dims (stride 0) count once.
int64_t storage_bytes(const TensorType& type);

std::string print(const TensorType& type);
// Parses exactly one type; throws UserError.
TensorType parse_type(const std::string& text);
// Parses a type that stands inside a larger text.
TensorType parse_type(Scanner& scanner);

}  // namespace weft
