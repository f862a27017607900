// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The module paths of the nodes of each copy, in order.
using CopyPaths = std::vector<std::vector<std::string_view>>;

struct PathPattern {
  // What all copies have in common, "encoder.layers"; may be "".
  std::string prefix;
  // How they differ below it, in order: "0", "1", "2".
  std::vector<std::string> parts;
};

// Where most nodes of each copy lie in a module that no other copy has; no
// parts when there is no such thing.
PathPattern path_pattern(const CopyPaths& copies);

// "encoder.layers.{0..2}"; "" without parts.
std::string print(const PathPattern& pattern);

// How many components two paths share from the left: "a.b.c" and "a.b.d" 2.
int shared_depth(std::string_view a, std::string_view b);

}  // namespace weft
