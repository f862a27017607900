// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/mesh.h"
#include "graph/tensor_type.h"

#include <string>
#include <vector>

namespace weft {

// How one value lies on a mesh: for every dim the axes that split it, outermost
// first, and the axes over which each rank holds a partial sum.
// Printed `[data, -, tensor*x] +{y}`; a scalar is `[]`.
struct Layout {
  std::vector<std::vector<std::string>> dims;
  std::vector<std::string> partial;

  bool operator==(const Layout&) const = default;
};

// Whole on every rank.
Layout replicated(int ndim);

std::string print(const Layout& layout);
// Parses exactly one layout; throws UserError.
Layout parse_layout(const std::string& text);
// Parses a layout that stands inside a larger text.
Layout parse_layout(Scanner& scanner);

// Axes exist, none is used twice, as many dims as the type. Throws UserError.
void verify(const Layout& layout, const TensorType& type, const Mesh& mesh);

}  // namespace weft
