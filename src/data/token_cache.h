// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text_files.h"
#include "data/token_stream.h"

#include <cstdint>
#include <string>

namespace weft {

struct Tokenized {
  TokenStream stream;
  int64_t vocabulary = 0;
  // Found, not made.
  bool from_cache = false;
  // Where the tokens lie; empty when they are in memory alone.
  std::string cache;
  // What was wrong with those that were there; empty: nothing.
  std::string made_again_because;
};

// The tokens of text files, with the tokenizer's end of text, where it has one,
// behind every file. They are made once and kept in `folder` as
// `.weft-tokens-<hash>.tokens` (token_cache_file.h), 2 or 4 bytes a token; the
// hash is of the tokenizer, and of path, size, time of change, beginning and
// end of every text. What is there and is not whole, or was made from something
// else, or by a user who could not have changed the texts, is made again.
// Written aside and renamed: several processes may do so at once. Where the
// folder cannot be written, they stay in memory. Throws UserError when a text
// changes meanwhile.
Tokenized tokenize_files(
    const TextFiles& files,
    const std::string& tokenizer_path,
    const std::string& folder);

}  // namespace weft
