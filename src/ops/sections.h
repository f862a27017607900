// SPDX-License-Identifier: Apache-2.0
// A dim as sections of equal size, for ops that take some of it or put parts
// together: where borders lie between sections, each section may be split,
// alike in all of them, while their number stays whole. So a fused weight for
// queries, keys and values, (c=3! h), is split by heads.
#pragma once

#include "ops/op_def.h"

#include <string>
#include <vector>

namespace weft {

// The largest section that divides all of these sizes and borders; 0 when they
// are all 0.
int64_t section_size(const Dims& borders);

// The word of a dim of `size` elements in sections whose inside is the factor
// `inside`: "(name=3! inside=8)"; "inside=8" for one section, "name=24!" where
// sections have one element.
std::string section_word(
    const std::string& name,
    int64_t size,
    int64_t section,
    const std::string& inside);

// What aten.slice and its relatives take of a dim.
struct Slice {
  int64_t start = 0;
  int64_t length = 0;
  int64_t step = 1;
};

// With start and end at `start_at` and behind it, then the step: wrapped and
// clamped to a dim of that size.
Slice read_slice(const Node& node, size_t start_at, int64_t size);

// The words of the dim before and after.
struct SliceWords {
  std::string whole;
  std::string part;
};
SliceWords slice_words(
    const Slice& slice, int64_t size, const std::string& inside);

// Start and end of the sections of a piece of `inside`, for a slice of a dim of
// `size` elements.
void localize_slice(
    Node& node, size_t start_at, int64_t size, const Piece& inside);

}  // namespace weft
