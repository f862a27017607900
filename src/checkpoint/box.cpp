// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/box.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

// Where `start` (of the whole tensor) lies in a row-major array of `box`.
int64_t element_offset(const Box& box, const Dims& strides, const Dims& start) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < start.size(); ++dim) {
    offset += (start[dim] - box.start[dim]) * strides[dim];
  }
  return offset;
}

// The first dim from which on `part` spans both boxes: everything from the dim
// before it inwards is one stretch of bytes on either side.
size_t first_whole_dim(const Box& part, const Box& a, const Box& b) {
  size_t dim = part.size.size();
  while (dim > 0 && part.size[dim - 1] == a.size[dim - 1] &&
         part.size[dim - 1] == b.size[dim - 1]) {
    --dim;
  }
  return dim;
}

}  // namespace

Box whole_box(const Dims& sizes) { return {Dims(sizes.size(), 0), sizes}; }

int64_t element_count(const Box& box) {
  int64_t count = 1;
  for (const int64_t size : box.size) {
    count *= size;
  }
  return count;
}

std::string print(const Box& box) {
  std::vector<std::string> dims;
  for (size_t dim = 0; dim < box.size.size(); ++dim) {
    dims.push_back(cat(box.start[dim], ":", box.start[dim] + box.size[dim]));
  }
  return cat("[", join(dims, ", "), "]");
}

bool fits(const Box& box, const Dims& sizes) {
  if (box.start.size() != sizes.size() || box.size.size() != sizes.size()) {
    return false;
  }
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (box.start[dim] < 0 || box.size[dim] < 0 ||
        box.start[dim] > sizes[dim] ||
        box.size[dim] > sizes[dim] - box.start[dim]) {
      return false;
    }
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  WEFT_CHECK(
      a.size.size() == b.size.size(), "boxes ", print(a), " and ", print(b));
  Box both;
  for (size_t dim = 0; dim < a.size.size(); ++dim) {
    const int64_t start = std::max(a.start[dim], b.start[dim]);
    const int64_t end =
        std::min(a.start[dim] + a.size[dim], b.start[dim] + b.size[dim]);
    if (end <= start) {
      return std::nullopt;
    }
    both.start.push_back(start);
    both.size.push_back(end - start);
  }
  return both;
}

void copy_box(
    const Box& part,
    const Box& from_box,
    std::span<const std::byte> from,
    const Box& to_box,
    std::span<std::byte> to,
    int64_t bytes_per_element) {
  WEFT_CHECK(
      std::ssize(from) == element_count(from_box) * bytes_per_element &&
          std::ssize(to) == element_count(to_box) * bytes_per_element,
      "bytes of ",
      print(from_box),
      " or ",
      print(to_box));
  if (element_count(part) == 0) {
    return;
  }
  const Dims from_strides = row_major_strides(from_box.size);
  const Dims to_strides = row_major_strides(to_box.size);
  const size_t whole = first_whole_dim(part, from_box, to_box);
  // Dims before `outer` are walked; from `outer` on it is one stretch.
  const size_t outer = whole == 0 ? 0 : whole - 1;
  int64_t stretch = bytes_per_element;
  for (size_t dim = outer; dim < part.size.size(); ++dim) {
    stretch *= part.size[dim];
  }
  Dims at = part.start;
  while (true) {
    const int64_t source =
        element_offset(from_box, from_strides, at) * bytes_per_element;
    const int64_t target =
        element_offset(to_box, to_strides, at) * bytes_per_element;
    std::memcpy(
        to.data() + target, from.data() + source, static_cast<size_t>(stretch));
    size_t dim = outer;
    while (dim > 0) {
      --dim;
      if (++at[dim] < part.start[dim] + part.size[dim]) {
        break;
      }
      at[dim] = part.start[dim];
      if (dim == 0) {
        return;
      }
    }
    if (outer == 0) {
      return;
    }
  }
}

}  // namespace weft
