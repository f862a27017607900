// SPDX-License-Identifier: Apache-2.0
// Rule text made by functions: a term is a list of words, one a dim.
#pragma once

#include "base/text.h"

#include <string>
#include <vector>

namespace weft {

using Words = std::vector<std::string>;

// "d0", "d1", ...: every dim a factor of its own.
inline Words dim_words(size_t ndim) {
  Words words;
  for (size_t i = 0; i < ndim; ++i) {
    words.push_back(cat("d", i));
  }
  return words;
}

inline std::string term(const Words& words) {
  return words.empty() ? "()" : join(words, " ");
}

}  // namespace weft
