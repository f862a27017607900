// SPDX-License-Identifier: Apache-2.0
#include "lower/time_layout.h"

#include "lower/cut_levels.h"
#include "lower/move.h"

#include <algorithm>

namespace weft {
namespace {

bool has_time(const Axes& axes, const Mesh& time) {
  return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
    return find_axis(time, axis) >= 0;
  });
}

// The axes of both: those that `made` has in its order, then the rest.
Axes joined(const Axes& made, const Axes& wanted, const Mesh& time) {
  Axes out;
  for (const std::string& axis : made) {
    if (contains(wanted, axis) || find_axis(time, axis) >= 0) {
      out.push_back(axis);
    }
  }
  for (const std::string& axis : wanted) {
    if (!contains(out, axis)) {
      out.push_back(axis);
    }
  }
  return out;
}

}  // namespace

Layout without_time(Layout layout, const Mesh& time) {
  const auto is_time = [&](const std::string& axis) {
    return find_axis(time, axis) >= 0;
  };
  for (Levels& levels : layout.dims) {
    for (Level& level : levels) {
      std::erase_if(level.axes, is_time);
    }
  }
  std::erase_if(layout.partial, is_time);
  return layout;
}

Layout with_time_of(
    const Layout& made,
    Layout layout,
    const TensorType& type,
    const Mesh& mesh,
    const Mesh& time) {
  if (time.axes.empty() || has_time(axes_of(layout), time)) {
    return layout;
  }
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    if (!has_time(axes_of(made.dims[dim]), time)) {
      continue;
    }
    const int64_t size = type.sizes[dim];
    const auto all = line_up(made.dims[dim], layout.dims[dim], size, mesh);
    if (!all) {
      continue;
    }
    Levels levels;
    for (const auto& [mine, wanted] : *all) {
      levels.push_back({mine.size, joined(mine.axes, wanted.axes, time)});
    }
    layout.dims[dim] = canonical(levels, size, mesh);
  }
  return layout;
}

}  // namespace weft
