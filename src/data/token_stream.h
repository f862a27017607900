// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/mapped_file.h"
#include "data/dataset.h"
#include "data/token_cache_file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft {

// Tokens one after the other, from files or from memory.
struct TokenStream {
  struct Segment {
    // A path, for messages.
    std::string name;
    std::span<const std::byte> bytes;
    // What is read is first compared with its checksums, where it has some.
    std::shared_ptr<const BlockChecks> checks = nullptr;
  };

  // 1, 2 or 4 bytes a token, unsigned, little-endian.
  int64_t token_bytes = 2;
  std::vector<Segment> segments;
  // What the segments point into.
  std::vector<MappedFile> files;
  std::vector<std::vector<std::byte>> buffers;

  void add(MappedFile file);
  void add(TokenCache cache);
  void add(std::string name, std::vector<std::byte> tokens);
};

// Throws UserError when there is no whole sample or `sequence` is not given.
// `vocabulary` is what the tokens can be; `limit` what a model takes.
std::unique_ptr<Dataset> make_stream_dataset(
    TokenStream stream,
    int64_t sequence,
    std::optional<int64_t> vocabulary,
    std::optional<int64_t> limit,
    std::vector<std::string> notes);

}  // namespace weft
