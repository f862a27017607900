// SPDX-License-Identifier: Apache-2.0
#include "data/token_cache.h"

#include "base/error.h"
#include "checkpoint/output_file.h"
#include "data/tokenizer.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

// A change of how tokens are made or stored makes other names.
constexpr int kCacheVersion = 1;

using ByteSink = std::function<void(std::span<const std::byte>)>;

std::string cache_name(
    const TextFiles& files, const std::string& tokenizer_path) {
  std::string key = cat(kCacheVersion, "\n", read_file(tokenizer_path));
  for (const std::string& path : files.paths) {
    struct stat status = {};
    WEFT_CHECK_USER(
        stat(path.c_str(), &status) == 0,
        "cannot read ",
        path,
        ": it went away");
    key +=
        cat("\n",
            fs::absolute(path).string(),
            " ",
            status.st_size,
            " ",
            status.st_mtim.tv_sec,
            ".",
            status.st_mtim.tv_nsec);
  }
  const uint64_t hash = XXH3_64bits(key.data(), key.size());
  std::string bytes(sizeof(hash), '\0');
  std::memcpy(bytes.data(), &hash, sizeof(hash));
  return cat(".weft-tokens-", to_hex(bytes), ".bin");
}

void make_tokens(
    const TextFiles& files,
    Tokenizer& tokenizer,
    int64_t token_bytes,
    const ByteSink& sink) {
  std::vector<uint16_t> narrow;
  const auto pass = [&](std::span<const uint32_t> tokens) {
    if (token_bytes == 4) {
      sink(std::as_bytes(tokens));
      return;
    }
    narrow.clear();
    for (const uint32_t token : tokens) {
      narrow.push_back(static_cast<uint16_t>(token));
    }
    sink(std::as_bytes(std::span(narrow)));
  };
  for (const std::string& path : files.paths) {
    const MappedFile file(path);
    tokenizer.encode(
        {reinterpret_cast<const char*>(file.bytes().data()),
         file.bytes().size()},
        pass);
    if (const auto end = tokenizer.end_of_text()) {
      pass(std::span(&*end, 1));
    }
  }
}

// False when the folder takes no file, or not all of it.
bool write_cache(
    const std::string& path, const std::function<void(const ByteSink&)>& make) {
  const std::string aside = cat(path, ".partial-", getpid());
  bool is_there = false;
  try {
    OutputFile file(aside);
    make([&](std::span<const std::byte> bytes) { file.write(bytes); });
    file.sync_and_close();
    is_there = std::rename(aside.c_str(), path.c_str()) == 0;
  } catch (const UserError&) {
    // The tokens are needed, the file is not.
    is_there = false;
  }
  if (!is_there) {
    unlink(aside.c_str());
  }
  return is_there;
}

}  // namespace

Tokenized tokenize_files(
    const TextFiles& files,
    const std::string& tokenizer_path,
    const std::string& folder) {
  Tokenizer tokenizer(tokenizer_path);
  Tokenized result;
  result.vocabulary = tokenizer.vocabulary();
  result.stream.token_bytes = result.vocabulary <= 1 << 16 ? 2 : 4;
  result.cache =
      (fs::path(folder) / cache_name(files, tokenizer_path)).string();
  const auto make = [&](const ByteSink& sink) {
    make_tokens(files, tokenizer, result.stream.token_bytes, sink);
  };
  result.from_cache = fs::exists(result.cache);
  if (result.from_cache || write_cache(result.cache, make)) {
    result.stream.add(MappedFile(result.cache));
    return result;
  }
  result.cache.clear();
  std::vector<std::byte> tokens;
  make([&](std::span<const std::byte> bytes) {
    tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  });
  result.stream.add(cat("the tokens of ", files.paths[0]), std::move(tokens));
  return result;
}

}  // namespace weft
