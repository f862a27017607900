// SPDX-License-Identifier: Apache-2.0
#include "lower/box_parts.h"

#include "base/error.h"
#include "ops/call.h"
#include "ops/kernel.h"
#include "ops/op_def.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft {
namespace {

Layout loose(size_t dims) { return replicated(static_cast<int>(dims)); }

ValueId add(Emitter& emitter, ValueId a, ValueId b, const std::string& base) {
  const TensorType type = emitter.block.function[a].type;
  return emitter.call(
      "aten.add.Tensor",
      {{a}, {b}},
      make_type(type.dtype, type.sizes),
      loose(type.sizes.size()),
      base);
}

bool covers(const Box& outer, const Box& inner) {
  for (size_t i = 0; i < inner.size(); ++i) {
    if (outer[i].start > inner[i].start ||
        outer[i].start + outer[i].size < inner[i].start + inner[i].size) {
      return false;
    }
  }
  return true;
}

// Where parts begin or end within the box along the dim, and its own ends.
std::set<int64_t> cuts(
    const std::vector<BoxPart>& parts, const Box& box, size_t dim) {
  const int64_t start = box[dim].start;
  const int64_t end = start + box[dim].size;
  std::set<int64_t> out = {start, end};
  for (const BoxPart& part : parts) {
    const Piece& range = part.box[dim];
    for (const int64_t at : {range.start, range.start + range.size}) {
      if (at > start && at < end) {
        out.insert(at);
      }
    }
  }
  return out;
}

}  // namespace

ValueId cut_part(
    Emitter& emitter,
    const BoxPart& part,
    const Box& box,
    const std::string& base) {
  ValueId now = part.value;
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].start == part.box[d].start && box[d].size == part.box[d].size) {
      continue;
    }
    const TensorType type = emitter.block.function[now].type;
    const int64_t start = box[d].start - part.box[d].start;
    Dims sizes = type.sizes;
    sizes[d] = box[d].size;
    now = emitter.call(
        "aten.slice.Tensor",
        {{now}, {static_cast<int64_t>(d)}, {start}, {start + box[d].size}},
        make_type(type.dtype, sizes, strides_of(type)),
        loose(sizes.size()),
        base);
  }
  return now;
}

ValueId join_row(
    Emitter& emitter,
    std::vector<ValueId> row,
    int dim,
    const std::string& base) {
  if (row.size() == 1) {
    return row.front();
  }
  const Function& function = emitter.block.function;
  const bool is_last = std::all_of(row.begin(), row.end(), [&](ValueId value) {
    return is_channels_last(function[value].type);
  });
  Dims sizes = function[row.front()].type.sizes;
  const auto d = static_cast<size_t>(dim);
  sizes[d] = 0;
  Arg::List list;
  for (const ValueId value : row) {
    sizes[d] += function[value].type.sizes[d];
    list.push_back({value});
  }
  const DType dtype = function[row.front()].type.dtype;
  return emitter.call(
      "aten.cat",
      {{list}, {static_cast<int64_t>(dim)}},
      is_last ? channels_last(dtype, sizes) : make_type(dtype, sizes),
      loose(sizes.size()),
      base);
}

ValueId join_parts(
    Emitter& emitter,
    const std::vector<BoxPart>& parts,
    const Box& box,
    double fill,
    const std::string& base) {
  std::vector<BoxPart> inside;
  for (const BoxPart& part : parts) {
    if (!is_empty(intersection(part.box, box))) {
      inside.push_back(part);
    }
  }
  if (inside.empty()) {
    const ValueId model = parts.front().value;
    const Dims sizes = sizes_of(box);
    return emitter.call(
        "aten.new_full",
        {{model}, to_arg(sizes), {fill}},
        make_type(emitter.block.function[model].type.dtype, sizes),
        loose(sizes.size()),
        base);
  }
  const bool is_full =
      std::all_of(inside.begin(), inside.end(), [&](const BoxPart& part) {
        return covers(part.box, box);
      });
  if (is_full) {
    ValueId sum = cut_part(emitter, inside.front(), box, base);
    for (size_t i = 1; i < inside.size(); ++i) {
      sum = add(emitter, sum, cut_part(emitter, inside[i], box, base), base);
    }
    return sum;
  }
  for (size_t d = 0; d < box.size(); ++d) {
    const std::set<int64_t> ends = cuts(inside, box, d);
    if (ends.size() == 2) {
      continue;
    }
    // The model of what is filled may lie outside a band.
    std::vector<ValueId> row;
    Box band = box;
    for (auto next = std::next(ends.begin()); next != ends.end(); ++next) {
      band[d].start = *std::prev(next);
      band[d].size = *next - band[d].start;
      row.push_back(join_parts(emitter, inside, band, fill, base));
    }
    return join_row(emitter, std::move(row), static_cast<int>(d), base);
  }
  WEFT_CHECK(false, "boxes that neither cover nor cut a box");
}

}  // namespace weft
