// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "graph/mesh.h"
#include "graph/tensor_type.h"

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
Layout parse_layout(const std::string& text);

// Axes exist, none is used twice, as many dims as the type. Throws UserError.
void verify(const Layout& layout, const TensorType& type, const Mesh& mesh);

}  // namespace weft
