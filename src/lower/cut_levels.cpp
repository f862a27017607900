// SPDX-License-Identifier: Apache-2.0
#include "lower/cut_levels.h"

#include <algorithm>

namespace weft {

std::deque<Level> explicit_levels(const Levels& levels, int64_t size) {
  if (levels.empty()) {
    return {Level{size, {}}};
  }
  std::deque<Level> out(levels.begin(), levels.end());
  if (out.size() == 1) {
    out.front().size = size;
  }
  return out;
}

bool cut_front(std::deque<Level>& levels, int64_t size, const Mesh& mesh) {
  Level& front = levels.front();
  if (front.size == size) {
    return true;
  }
  if (size == 0 || front.size % size != 0) {
    return false;
  }
  Level outer = {size, {}};
  Level inner = {front.size / size, {}};
  if (!front.axes.empty() && divides(mesh, front.axes, size)) {
    outer.axes = front.axes;
  } else {
    // The slower axes use up the outer level, the others split the inner one.
    size_t used = 0;
    while (used < front.axes.size() && ways(mesh, outer.axes) < size) {
      outer.axes.push_back(front.axes[used++]);
    }
    if (!front.axes.empty() && ways(mesh, outer.axes) != size) {
      return false;
    }
    inner.axes.assign(
        front.axes.begin() + static_cast<std::ptrdiff_t>(used),
        front.axes.end());
  }
  front = inner;
  levels.push_front(outer);
  return true;
}

std::optional<std::vector<std::pair<Level, Level>>> line_up(
    const Levels& one, const Levels& other, int64_t size, const Mesh& mesh) {
  std::deque<Level> a = explicit_levels(one, size);
  std::deque<Level> b = explicit_levels(other, size);
  std::vector<std::pair<Level, Level>> out;
  while (!a.empty() && !b.empty()) {
    const int64_t least = std::min(a.front().size, b.front().size);
    if (!cut_front(a, least, mesh) || !cut_front(b, least, mesh)) {
      return std::nullopt;
    }
    out.emplace_back(a.front(), b.front());
    a.pop_front();
    b.pop_front();
  }
  return out;
}

}  // namespace weft
