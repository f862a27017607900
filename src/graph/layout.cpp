// SPDX-License-Identifier: Apache-2.0
#include "graph/layout.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <algorithm>
#include <unordered_set>

namespace weft {
namespace {

// Every size there; the one of size 0 takes what the others leave.
Levels with_all_sizes(Levels levels, int64_t size) {
  int64_t known = 1;
  Level* rest = nullptr;
  for (Level& level : levels) {
    if (level.size == 0) {
      WEFT_CHECK(rest == nullptr, "two levels without a size");
      rest = &level;
    } else {
      known *= level.size;
    }
  }
  if (rest != nullptr) {
    WEFT_CHECK(known > 0 && size % known == 0, "levels that do not fit");
    rest->size = size / known;
  } else {
    WEFT_CHECK(known == size || levels.empty(), "levels that do not fit");
  }
  return levels;
}

// Puts `inner` behind `outer` as one level with the same pieces, if it can be.
bool merge(Level& outer, const Level& inner, const Mesh& mesh) {
  const int64_t count = ways(mesh, outer.axes);
  const bool is_one = (outer.axes.empty() && inner.axes.empty()) ||
                      (!outer.axes.empty() && inner.axes.empty() &&
                       divides(mesh, outer.axes, outer.size)) ||
                      (!outer.axes.empty() && outer.size == count);
  if (is_one) {
    outer.size *= inner.size;
    outer.axes.insert(outer.axes.end(), inner.axes.begin(), inner.axes.end());
  }
  return is_one;
}

std::string print(const Level& level) {
  if (level.axes.empty()) {
    return cat(level.size);
  }
  return level.size == 0 ? join(level.axes, "*")
                         : cat(join(level.axes, "*"), ":", level.size);
}

int64_t parse_level_size(Scanner& scanner, int64_t least) {
  return expect_integer(scanner, "the size of a level", {.least = least});
}

Level parse_level(Scanner& scanner) {
  Level level;
  do {
    level.axes.push_back(scanner.expect_word());
  } while (scanner.take("*"));
  if (scanner.take(":")) {
    level.size = parse_level_size(scanner, 1);
  }
  return level;
}

Levels parse_levels(Scanner& scanner) {
  Levels levels;
  if (scanner.take("-")) {
    return levels;
  }
  if (!scanner.take("(")) {
    levels.push_back(parse_level(scanner));
    return levels;
  }
  while (!scanner.take(")")) {
    if (scanner.peek() >= '0' && scanner.peek() <= '9') {
      // A dim without elements may be written so.
      levels.push_back({parse_level_size(scanner, 0), {}});
    } else {
      levels.push_back(parse_level(scanner));
    }
  }
  return levels;
}

void verify_levels(const Layout& layout, size_t dim, int64_t size) {
  std::vector<int64_t> sizes;
  int open = 0;
  for (const Level& level : layout.dims[dim]) {
    open += level.size == 0 ? 1 : 0;
    sizes.push_back(level.size == 0 ? 1 : level.size);
  }
  // More than 64 bits hold are more than any dim has.
  const int64_t known = checked_product(sizes).value_or(0);
  WEFT_CHECK_USER(
      open <= 1,
      "[layout] ",
      print(layout),
      ": dim ",
      dim,
      " has two levels without a size; write one as `axis:size`");
  const bool fits =
      known > 0 && (open == 1 ? size % known == 0
                              : layout.dims[dim].empty() || known == size);
  WEFT_CHECK_USER(
      fits,
      "[layout] ",
      print(layout),
      ": the levels of dim ",
      dim,
      " do not make up its size, ",
      size);
}

}  // namespace

Layout replicated(int ndim) {
  WEFT_CHECK(ndim >= 0, "ndim is ", ndim);
  Layout layout;
  layout.dims.resize(static_cast<size_t>(ndim));
  return layout;
}

Levels split_over(Axes axes) {
  Levels levels;
  if (!axes.empty()) {
    levels.push_back({0, std::move(axes)});
  }
  return levels;
}

Axes axes_of(const Levels& levels) {
  Axes axes;
  for (const Level& level : levels) {
    axes.insert(axes.end(), level.axes.begin(), level.axes.end());
  }
  return axes;
}

Axes axes_of(const Layout& layout) {
  Axes axes = layout.partial;
  for (const Levels& levels : layout.dims) {
    const Axes more = axes_of(levels);
    axes.insert(axes.end(), more.begin(), more.end());
  }
  return axes;
}

Levels canonical(const Levels& levels, int64_t size, const Mesh& mesh) {
  // A dim without elements has nothing to split.
  if (size == 0) {
    return {};
  }
  Levels out;
  for (const Level& level : with_all_sizes(levels, size)) {
    if (level.size == 1 && level.axes.empty()) {
      continue;
    }
    out.push_back(level);
    while (out.size() > 1 && merge(out[out.size() - 2], out.back(), mesh)) {
      out.pop_back();
    }
  }
  if (out.size() == 1) {
    if (out.front().axes.empty()) {
      return {};
    }
    if (divides(mesh, out.front().axes, out.front().size)) {
      out.front().size = 0;
    }
  }
  return out;
}

Layout canonical(
    const Layout& layout, const TensorType& type, const Mesh& mesh) {
  Layout out = layout;
  for (size_t dim = 0; dim < out.dims.size(); ++dim) {
    out.dims[dim] = canonical(layout.dims[dim], type.sizes[dim], mesh);
  }
  return out;
}

Layout only_on(Layout layout, const Mesh& mesh) {
  const auto is_missing = [&](const std::string& axis) {
    return find_axis(mesh, axis) < 0;
  };
  for (Levels& levels : layout.dims) {
    for (Level& level : levels) {
      std::erase_if(level.axes, is_missing);
    }
  }
  std::erase_if(layout.partial, is_missing);
  return layout;
}

std::string print(const Layout& layout) {
  std::vector<std::string> dims;
  for (const Levels& levels : layout.dims) {
    std::vector<std::string> parts;
    for (const Level& level : levels) {
      parts.push_back(print(level));
    }
    dims.push_back(
        levels.empty() ? "-"
        : levels.size() == 1 && !levels.front().axes.empty()
            ? parts.front()
            : cat("(", join(parts, " "), ")"));
  }
  std::string out = cat("[", join(dims, ", "), "]");
  if (!layout.partial.empty()) {
    out += cat(" +{", join(layout.partial, ", "), "}");
  }
  return out;
}

Layout parse_layout(Scanner& scanner) {
  Layout layout;
  scanner.expect("[");
  if (!scanner.take("]")) {
    do {
      layout.dims.push_back(parse_levels(scanner));
    } while (scanner.take(","));
    scanner.expect("]");
  }
  if (scanner.take("+")) {
    scanner.expect("{");
    do {
      layout.partial.push_back(scanner.expect_word());
    } while (scanner.take(","));
    scanner.expect("}");
  }
  return layout;
}

Layout parse_layout(const std::string& text) {
  Scanner scanner(text, "<layout>");
  Layout layout = parse_layout(scanner);
  if (!scanner.at_end()) {
    scanner.fail_expected("the end of the layout");
  }
  return layout;
}

void verify(const Layout& layout, const TensorType& type, const Mesh& mesh) {
  WEFT_CHECK_USER(
      layout.dims.size() == type.sizes.size(),
      "[layout] ",
      print(layout),
      " has ",
      layout.dims.size(),
      " dims, the value has ",
      type.sizes.size(),
      ": ",
      print(type));
  std::unordered_set<std::string> used;
  for (const std::string& axis : axes_of(layout)) {
    WEFT_CHECK_USER(
        find_axis(mesh, axis) >= 0,
        "[layout] ",
        print(layout),
        " names the axis '",
        axis,
        "', which is not on the mesh ",
        print(mesh));
    WEFT_CHECK_USER(
        used.insert(axis).second,
        "[layout] ",
        print(layout),
        " uses the axis ",
        axis,
        " twice");
  }
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    verify_levels(layout, dim, type.sizes[dim]);
  }
}

}  // namespace weft
