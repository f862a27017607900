// SPDX-License-Identifier: Apache-2.0
// Names of files that stand in a file that others wrote.
#pragma once

#include <string>

namespace weft {

// Whether the path, taken from a folder on, stays below that folder as far as
// its words tell: it is relative, names a file, and has no "..".
bool is_inner_path(const std::string& path);

}  // namespace weft
