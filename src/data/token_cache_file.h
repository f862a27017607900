// SPDX-License-Identifier: Apache-2.0
// A file of tokens that knows whether it is what was written. Tokens first,
// then a checksum of every block of them, then an end mark: the version, the
// sizes, what the tokens were made from, and checksums of all that.
#pragma once

#include "checkpoint/mapped_file.h"
#include "checkpoint/output_file.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft {

// A reader of one sample reads this much the first time.
inline constexpr int64_t kTokenBlockBytes = int64_t{1} << 16;

// Blocks of tokens beside the checksums that were written with them.
class BlockChecks {
 public:
  // `table` holds a checksum a block; both must outlive it.
  BlockChecks(
      std::string path,
      std::span<const std::byte> tokens,
      std::span<const std::byte> table);

  // Throws UserError when a block that holds any of these bytes is not what was
  // written. Each block is compared the first time. From several threads.
  void expect(int64_t offset_bytes, int64_t size_bytes) const;

  // The offset of the first block that differs. Reads everything.
  std::optional<int64_t> first_bad_bytes() const;

 private:
  bool is_good(size_t block) const;

  std::string path_;
  std::span<const std::byte> tokens_;
  std::span<const std::byte> table_;
  std::unique_ptr<std::atomic<bool>[]> known_;
};

class TokenCacheWriter {
 public:
  // Replaces the file. Throws UserError as OutputFile does.
  explicit TokenCacheWriter(const std::string& path);

  void write(std::span<const std::byte> tokens);
  // `made_from` stands for all that the tokens follow from. The file is then on
  // the disk.
  void finish(uint64_t made_from);

 private:
  void end_block();

  OutputFile file_;
  std::vector<std::byte> block_;
  std::vector<uint64_t> table_;
  uint64_t tokens_bytes_ = 0;
};

struct TokenCache {
  MappedFile file;
  std::span<const std::byte> tokens;
  std::shared_ptr<const BlockChecks> checks;
};

struct TokenCacheOpening {
  std::optional<TokenCache> cache;
  // Why there is none; empty when there is no such file.
  std::string why;
};

// Checks sizes, end mark and `made_from`, and of up to `read_at_once_bytes` of
// tokens every block; of more, a block is compared when it is first read.
TokenCacheOpening open_token_cache(
    const std::string& path,
    uint64_t made_from,
    int64_t read_at_once_bytes = int64_t{1} << 28);

}  // namespace weft
