// SPDX-License-Identifier: Apache-2.0
#include "lower/time_layout.h"

#include "lower/cut_levels.h"
#include "lower/move.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

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

// None when the levels do not line up.
std::optional<Levels> joined(
    const Levels& made,
    const Levels& wanted,
    int64_t size,
    const Mesh& mesh,
    const Mesh& time) {
  std::deque<Level> a = explicit_levels(made, size);
  std::deque<Level> b = explicit_levels(wanted, size);
  Levels out;
  while (!a.empty() && !b.empty()) {
    const int64_t least = std::min(a.front().size, b.front().size);
    if (!cut_front(a, least, mesh) || !cut_front(b, least, mesh)) {
      return std::nullopt;
    }
    out.push_back({least, joined(a.front().axes, b.front().axes, time)});
    a.pop_front();
    b.pop_front();
  }
  return canonical(out, size, mesh);
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
    if (has_time(axes_of(made.dims[dim]), time)) {
      layout.dims[dim] =
          joined(made.dims[dim], layout.dims[dim], type.sizes[dim], mesh, time)
              .value_or(layout.dims[dim]);
    }
  }
  return layout;
}

}  // namespace weft
