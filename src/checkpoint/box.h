// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace weft {

// A rectangular part of a tensor: for every dim where it starts in the whole
// tensor and how long it is, in elements. Of a tensor without dims, all of it.
struct Box {
  Dims start;
  Dims size;

  bool operator==(const Box&) const = default;
};

Box whole_box(const Dims& sizes);
int64_t element_count(const Box& box);
// "[0:4, 8:16]"
std::string print(const Box& box);

// As many dims as `sizes`, no negative numbers, nothing beyond the end.
bool fits(const Box& box, const Dims& sizes);

// What both have in common; none when that is nothing.
std::optional<Box> intersect(const Box& a, const Box& b);

// Copies the elements of `part`, which lies in both boxes, from a row-major
// array that holds `from_box` to one that holds `to_box`.
void copy_box(
    const Box& part,
    const Box& from_box,
    std::span<const std::byte> from,
    const Box& to_box,
    std::span<std::byte> to,
    int64_t bytes_per_element);

}  // namespace weft
