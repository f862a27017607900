// SPDX-License-Identifier: Apache-2.0
// Levels of a dim cut finer, so that two ways to see the dim line up.
#pragma once

#include "graph/layout.h"
#include "graph/mesh.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace weft {

// All levels of a dim with their sizes, slowest first; at least one.
std::deque<Level> explicit_levels(const Levels& levels, int64_t size);

// Cuts the first `size` elements of the first level off as a level of its own,
// if the pieces stay what they are; else false, and nothing is changed.
bool cut_front(std::deque<Level>& levels, int64_t size, const Mesh& mesh);

// Both cut into levels of the same sizes, side by side; none when they do not
// line up.
std::optional<std::vector<std::pair<Level, Level>>> line_up(
    const Levels& one, const Levels& other, int64_t size, const Mesh& mesh);

}  // namespace weft
