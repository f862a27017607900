// SPDX-License-Identifier: Apache-2.0
#include "lower/time_layout.h"

#include "base/error.h"
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

// The level without axes of time, as levels. False where an axis of the mesh
// splits what one of time has left in unequal pieces: then what a rank has of
// all of them is no layout.
bool append_without_time(
    Levels& levels, const Level& level, const Mesh& mesh, const Mesh& time) {
  size_t outer = 0;
  for (size_t i = 0; i + 1 < level.axes.size(); ++i) {
    if (find_axis(time, level.axes[i]) >= 0 &&
        find_axis(time, level.axes[i + 1]) < 0) {
      outer = i + 1;
    }
  }
  const auto split = level.axes.begin() + static_cast<std::ptrdiff_t>(outer);
  Level inner = {level.size, Axes(split, level.axes.end())};
  if (outer > 0) {
    const Axes front(level.axes.begin(), split);
    const int64_t count = ways(mesh, front);
    if (!divides(mesh, front, level.size) ||
        !append_without_time(levels, {count, front}, mesh, time)) {
      return false;
    }
    inner.size = level.size / count;
  }
  std::erase_if(inner.axes, [&](const std::string& axis) {
    return find_axis(time, axis) >= 0;
  });
  levels.push_back(std::move(inner));
  return true;
}

}  // namespace

Layout without_time(
    Layout layout, const TensorType& type, const Mesh& mesh, const Mesh& time) {
  const Layout whole = layout;
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    Levels levels;
    for (const Level& level :
         explicit_levels(layout.dims[dim], type.sizes[dim])) {
      WEFT_CHECK_USER(
          append_without_time(levels, level, mesh, time),
          print(whole),
          " of ",
          print(type),
          ": what axes of time leave does not divide; put axes of time last, "
          "or take a batch that divides");
    }
    layout.dims[dim] = canonical(levels, type.sizes[dim], mesh);
  }
  std::erase_if(layout.partial, [&](const std::string& axis) {
    return find_axis(time, axis) >= 0;
  });
  return layout;
}

Layout resting_layout(
    const Layout& made,
    Layout wanted,
    bool is_for_update,
    const TensorType& type,
    const Mesh& mesh,
    const Mesh& time) {
  if (is_for_update || time.axes.empty() || has_time(axes_of(wanted), time)) {
    return wanted;
  }
  for (size_t dim = 0; dim < wanted.dims.size(); ++dim) {
    if (!has_time(axes_of(made.dims[dim]), time)) {
      continue;
    }
    const int64_t size = type.sizes[dim];
    const auto all = line_up(made.dims[dim], wanted.dims[dim], size, mesh);
    if (!all) {
      continue;
    }
    Levels levels;
    for (const auto& [mine, theirs] : *all) {
      levels.push_back({mine.size, joined(mine.axes, theirs.axes, time)});
    }
    wanted.dims[dim] = canonical(levels, size, mesh);
  }
  return wanted;
}

}  // namespace weft
