// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace weft {

// The length of the first word of a text that is not empty, by the rule of
// GPT-2, whose words a byte-level BPE never merges across:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Classes are those of ASCII, and every byte from 0x80 on counts as a letter.
// English is split as by the original; other scripts where letters meet
// punctuation, digits or spaces outside ASCII are split less often, which the
// merges can make into other tokens.
size_t first_word_bytes(std::string_view text);

}  // namespace weft
