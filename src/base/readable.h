// SPDX-License-Identifier: Apache-2.0
// Messages as people are shown them, whatever the file held that they quote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

// With the words before and after it, a message is below 2 KiB.
inline constexpr size_t kLongestMessageBytes = 1800;

// The text itself where it takes at most so many bytes, else its head and tail
// with "..." between: never cut inside a character of UTF-8.
std::string shortened(std::string_view text, size_t most_bytes);

// At most kLongestMessageBytes of valid UTF-8, with head and tail of what is
// longer. A run without spaces over 400 bytes, a name or a number of a hostile
// file, is shortened first. Bytes that are no text (invalid UTF-8, and control
// characters, which would move a terminal's cursor) are written as \xNN.
std::string readable(std::string_view message);

}  // namespace weft
