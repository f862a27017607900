// SPDX-License-Identifier: Apache-2.0
#include "ops/sections.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/call.h"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

// Every step-th element of all: each step has one.
bool takes_each_step(const Slice& slice, int64_t size) {
  return slice.step > 1 && size % slice.step == 0 && slice.start < slice.step &&
         slice.length == size / slice.step;
}

}  // namespace

int64_t section_size(const Dims& borders) {
  int64_t section = 0;
  for (const int64_t border : borders) {
    section = std::gcd(section, border);
  }
  return section;
}

std::string section_word(
    const std::string& name,
    int64_t size,
    int64_t section,
    const std::string& inside) {
  if (section <= 1) {
    return cat(name, "=", size, "!");
  }
  return size == section ? cat(inside, "=", section)
                         : cat("(",
                               name,
                               "=",
                               size / section,
                               "! ",
                               inside,
                               "=",
                               section,
                               ")");
}

Slice read_slice(const Node& node, size_t start_at, int64_t size) {
  const auto wrapped = [size](int64_t border) {
    return std::clamp<int64_t>(border < 0 ? border + size : border, 0, size);
  };
  const int64_t start = wrapped(int_arg(node, start_at, 0));
  const int64_t end =
      std::max(start, wrapped(int_arg(node, start_at + 1, size)));
  const int64_t step = int_arg(node, start_at + 2, 1);
  WEFT_CHECK(step > 0, "a step is ", step);
  return {start, (end - start + step - 1) / step, step};
}

SliceWords slice_words(
    const Slice& slice, int64_t size, const std::string& inside) {
  if (slice.step == 1 && slice.length == size) {
    return {inside, inside};
  }
  if (takes_each_step(slice, size)) {
    return {
        cat("(", inside, "=", slice.length, " step=", slice.step, "!)"),
        inside};
  }
  const int64_t section =
      slice.step == 1 ? section_size({slice.start, slice.length, size}) : 1;
  return {
      section_word("whole", size, section, inside),
      section_word("part", slice.length, section, inside)};
}

void localize_slice(
    Node& node, size_t start_at, int64_t size, const Piece& inside) {
  const Slice slice = read_slice(node, start_at, size);
  const bool all = slice.step == 1 && slice.length == size;
  if (inside.size == inside.whole || all) {
    return;
  }
  fill_args(node, Arg::List(start_at + 2, Arg{None{}}));
  if (takes_each_step(slice, size)) {
    set_arg(node, start_at, {slice.start});
    set_arg(node, start_at + 1, {inside.size * slice.step});
    return;
  }
  const int64_t start = slice.start / inside.whole * inside.size;
  const int64_t length = slice.length / inside.whole * inside.size;
  set_arg(node, start_at, {start});
  set_arg(node, start_at + 1, {start + length});
}

}  // namespace weft
