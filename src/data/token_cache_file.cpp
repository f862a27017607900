// SPDX-License-Identifier: Apache-2.0
#include "data/token_cache_file.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {
namespace {

constexpr std::array<char, 8> kMark = {'w', 'e', 'f', 't', '-', 't', 'o', 'k'};
constexpr uint64_t kVersion = 2;

// As it lies at the end of the file.
struct EndMark {
  std::array<char, 8> mark = kMark;
  uint64_t version = kVersion;
  uint64_t made_from = 0;
  uint64_t tokens_bytes = 0;
  uint64_t block_bytes = kTokenBlockBytes;
  // Of the checksums of the blocks.
  uint64_t table_checksum = 0;
  // Of all above.
  uint64_t checksum = 0;
};
static_assert(sizeof(EndMark) == 56);

uint64_t checksum_of_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t checksum_of_mark(const EndMark& mark) {
  return XXH3_64bits(&mark, offsetof(EndMark, checksum));
}

size_t block_count(size_t tokens_bytes) {
  return (tokens_bytes + kTokenBlockBytes - 1) / kTokenBlockBytes;
}

// What is wrong with the end of the file; empty: nothing.
std::string fault_of(
    std::span<const std::byte> bytes, const EndMark& mark, uint64_t made_from) {
  if (mark.mark != kMark) {
    return "it does not end as one: it is cut short, or was never whole";
  }
  if (mark.checksum != checksum_of_mark(mark)) {
    return "its end was altered";
  }
  if (mark.version != kVersion || mark.block_bytes != kTokenBlockBytes) {
    return cat("it has version ", mark.version, ", and this is ", kVersion);
  }
  if (mark.made_from != made_from) {
    return "it was made from other texts or by another tokenizer";
  }
  const size_t whole =
      mark.tokens_bytes + 8 * block_count(mark.tokens_bytes) + sizeof(EndMark);
  if (mark.tokens_bytes > bytes.size() || whole != bytes.size()) {
    return cat("it has ", bytes.size(), " bytes, and ", whole, " were written");
  }
  return "";
}

}  // namespace

BlockChecks::BlockChecks(
    std::string path,
    std::span<const std::byte> tokens,
    std::span<const std::byte> table)
    : path_(std::move(path)),
      tokens_(tokens),
      table_(table),
      known_(
          std::make_unique<std::atomic<bool>[]>(block_count(tokens.size()))) {}

bool BlockChecks::is_good(size_t block) const {
  if (known_[block].load(std::memory_order_relaxed)) {
    return true;
  }
  const size_t first = block * kTokenBlockBytes;
  const size_t count =
      std::min<size_t>(kTokenBlockBytes, tokens_.size() - first);
  uint64_t written = 0;
  std::memcpy(&written, table_.data() + 8 * block, sizeof(written));
  if (checksum_of_bytes(tokens_.subspan(first, count)) != written) {
    return false;
  }
  known_[block].store(true, std::memory_order_relaxed);
  return true;
}

void BlockChecks::expect(int64_t offset_bytes, int64_t size_bytes) const {
  const auto first = static_cast<size_t>(offset_bytes / kTokenBlockBytes);
  const auto last = static_cast<size_t>(
      (offset_bytes + std::max<int64_t>(size_bytes, 1) - 1) / kTokenBlockBytes);
  for (size_t block = first; block <= last; ++block) {
    WEFT_CHECK_USER(
        is_good(block),
        path_,
        " was altered after it was made: the checksum of its bytes from ",
        block * kTokenBlockBytes,
        " on differs. Remove it, and it is made again from the texts; go on "
        "with --resume");
  }
}

std::optional<int64_t> BlockChecks::first_bad_bytes() const {
  for (size_t block = 0; block < block_count(tokens_.size()); ++block) {
    if (!is_good(block)) {
      return static_cast<int64_t>(block * kTokenBlockBytes);
    }
  }
  return std::nullopt;
}

TokenCacheWriter::TokenCacheWriter(const std::string& path) : file_(path) {
  block_.reserve(kTokenBlockBytes);
}

void TokenCacheWriter::write(std::span<const std::byte> tokens) {
  while (!tokens.empty()) {
    const size_t count =
        std::min<size_t>(kTokenBlockBytes - block_.size(), tokens.size());
    block_.insert(block_.end(), tokens.begin(), tokens.begin() + count);
    tokens = tokens.subspan(count);
    if (block_.size() == kTokenBlockBytes) {
      end_block();
    }
  }
}

void TokenCacheWriter::end_block() {
  table_.push_back(checksum_of_bytes(block_));
  file_.write(block_);
  tokens_bytes_ += block_.size();
  block_.clear();
}

void TokenCacheWriter::finish(uint64_t made_from) {
  if (!block_.empty()) {
    end_block();
  }
  const auto table = std::as_bytes(std::span(table_));
  file_.write(table);
  EndMark mark;
  mark.made_from = made_from;
  mark.tokens_bytes = tokens_bytes_;
  mark.table_checksum = checksum_of_bytes(table);
  mark.checksum = checksum_of_mark(mark);
  file_.write(std::as_bytes(std::span(&mark, 1)));
  file_.sync_and_close();
}

TokenCacheOpening open_token_cache(
    const std::string& path, uint64_t made_from, int64_t read_at_once_bytes) {
  if (!std::filesystem::exists(path)) {
    return {};
  }
  MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < sizeof(EndMark)) {
    return {std::nullopt, cat("it is cut short to ", bytes.size(), " bytes")};
  }
  EndMark mark;
  const size_t end = bytes.size() - sizeof(EndMark);
  std::memcpy(&mark, bytes.data() + end, sizeof(EndMark));
  if (std::string fault = fault_of(bytes, mark, made_from); !fault.empty()) {
    return {std::nullopt, std::move(fault)};
  }
  const auto tokens = bytes.first(mark.tokens_bytes);
  const auto table = bytes.subspan(tokens.size(), end - tokens.size());
  if (checksum_of_bytes(table) != mark.table_checksum) {
    return {std::nullopt, "its checksums were altered"};
  }
  auto checks = std::make_shared<BlockChecks>(path, tokens, table);
  if (std::ssize(tokens) <= read_at_once_bytes) {
    if (const auto bad = checks->first_bad_bytes()) {
      return {
          std::nullopt,
          cat("the checksum of its bytes from ",
              *bad,
              " on differs: it was altered")};
    }
  }
  return {TokenCache{std::move(file), tokens, std::move(checks)}, ""};
}

}  // namespace weft
