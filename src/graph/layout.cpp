// SPDX-License-Identifier: Apache-2.0
#include "graph/layout.h"

#include "base/error.h"
#include "base/text.h"

#include <unordered_set>

namespace weft {

Layout replicated(int ndim) {
  WEFT_CHECK(ndim >= 0, "ndim is ", ndim);
  Layout layout;
  layout.dims.resize(static_cast<size_t>(ndim));
  return layout;
}

std::string print(const Layout& layout) {
  std::vector<std::string> dims;
  for (const std::vector<std::string>& axes : layout.dims) {
    dims.push_back(axes.empty() ? "-" : join(axes, "*"));
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
      std::vector<std::string>& axes = layout.dims.emplace_back();
      if (scanner.take("-")) {
        continue;
      }
      do {
        axes.push_back(scanner.expect_word());
      } while (scanner.take("*"));
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
  const auto check = [&](const std::string& axis) {
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
  };
  for (const std::vector<std::string>& axes : layout.dims) {
    for (const std::string& axis : axes) {
      check(axis);
    }
  }
  for (const std::string& axis : layout.partial) {
    check(axis);
  }
}

}  // namespace weft
