// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/mesh.h"
#include "graph/tensor_type.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

using Axes = std::vector<std::string>;

// A part of a dim that is split by itself: `size` elements over `axes`,
// outermost first. Without axes it is whole.
struct Level {
  // 0: as many as the dim has beside the other levels.
  int64_t size = 0;
  Axes axes;

  bool operator==(const Level&) const = default;
};

// How one dim is split: its levels, slowest first. Empty: whole. Nearly always
// one level of size 0. More where several dims were made one, or one holds
// several matrices: `(3 tensor:64)` is three sections of 64, each of them
// split.
using Levels = std::vector<Level>;

// How one value lies on a mesh: for every dim the axes that split it, and the
// axes over which each rank holds a partial sum. Printed
// `[data, -, tensor*x] +{y}`, `[(data:4 sequence:128), -]`; a scalar is `[]`.
//
// Each axis cuts what the axes before it left into pieces that differ by at
// most one element, the larger ones first; or by its shares. A level that does
// not divide evenly tells its size: `[tensor:5]`.
struct Layout {
  std::vector<Levels> dims;
  Axes partial;

  bool operator==(const Layout&) const = default;
};

// Whole on every rank.
Layout replicated(int ndim);

Levels split_over(Axes axes);
// All axes that split the dim, outermost first.
Axes axes_of(const Levels& levels);
// All axes that split or sum the value.
Axes axes_of(const Layout& layout);

// The one way to write the same pieces of a dim of that size: levels that can
// be one are one, a single level that divides evenly has size 0, and all other
// sizes are there. The levels must fit the size.
Levels canonical(const Levels& levels, int64_t size, const Mesh& mesh);
Layout canonical(
    const Layout& layout, const TensorType& type, const Mesh& mesh);

// Without the axes that the mesh does not have.
Layout only_on(Layout layout, const Mesh& mesh);

std::string print(const Layout& layout);
// Parses exactly one layout; throws UserError.
Layout parse_layout(const std::string& text);
// Parses a layout that stands inside a larger text.
Layout parse_layout(Scanner& scanner);

// Axes exist, none is used twice, as many dims as the type, levels that fit
// their dims. Throws UserError.
void verify(const Layout& layout, const TensorType& type, const Mesh& mesh);

}  // namespace weft
