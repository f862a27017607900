// SPDX-License-Identifier: Apache-2.0
// Mutants of texts that get past their first line: words, numbers and lines
// are changed as wholes, so that most of a mutant is still right.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace weft {

// Of at most `most_bytes`. The same for the same state of `random`.
std::string mutated(
    std::string_view text, size_t most_bytes, std::minstd_rand& random);

}  // namespace weft
