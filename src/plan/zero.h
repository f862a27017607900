// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"

#include <vector>

namespace weft {

// What of a step belongs to one parameter.
struct Belongings {
  ValueId parameter = ValueId::None;
  // Of the optimizer, with the parameter's sizes.
  std::vector<ValueId> states;
  // As backward makes it; None without an optimizer.
  ValueId gradient = ValueId::None;
  // The optimizer works element by element, so that a piece can be updated by
  // itself.
  bool is_elementwise = true;
};
std::vector<Belongings> belongings(const Function& step);

// `compute` with one more dim split over `axes`: the first whose pieces divide,
// else the largest; `compute` itself when all are too small.
Layout stored_split(
    const Layout& compute,
    const TensorType& type,
    const Axes& axes,
    const Mesh& mesh);

}  // namespace weft
