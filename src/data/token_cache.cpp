// SPDX-License-Identifier: Apache-2.0
#include "data/token_cache.h"

#include "base/error.h"
#include "base/trusted_file.h"
#include "data/token_cache_file.h"
#include "data/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

// A change of how tokens are made or stored makes other names.
constexpr int kCacheVersion = 2;

using ByteSink = std::function<void(std::span<const std::byte>)>;

// Of the first and the last few bytes: a text that was replaced by another of
// its size and time, as some copying programs do, mostly differs there.
uint64_t hash_of_ends(const std::string& path, int64_t size_bytes) {
  std::array<char, 4096> ends = {};
  const auto count =
      std::min<int64_t>(size_bytes, static_cast<int64_t>(ends.size()));
  std::ifstream file(path, std::ios::binary);
  file.read(ends.data(), count);
  const uint64_t first = XXH3_64bits(ends.data(), ends.size());
  file.seekg(size_bytes - count);
  file.read(ends.data(), count);
  return XXH3_64bits_withSeed(ends.data(), ends.size(), first);
}

// Stands for all that the tokens follow from.
uint64_t made_from(const TextFiles& files, const std::string& tokenizer_path) {
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
            status.st_mtim.tv_nsec,
            " ",
            hash_of_ends(path, status.st_size));
  }
  return XXH3_64bits(key.data(), key.size());
}

std::string cache_name(uint64_t made_from) {
  std::string bytes(sizeof(made_from), '\0');
  std::memcpy(bytes.data(), &made_from, sizeof(made_from));
  return cat(".weft-tokens-", to_hex(bytes), ".tokens");
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

// No other process, here or on another machine, writes under this name.
std::string name_aside(const std::string& path) {
  std::random_device random;
  return cat(path, ".partial-", getpid(), "-", random(), random());
}

// False when the folder takes no file, or not all of it.
bool write_cache(
    const std::string& path,
    uint64_t made_from,
    const std::function<void(const ByteSink&)>& make) {
  const std::string aside = name_aside(path);
  bool is_there = false;
  try {
    TokenCacheWriter file(aside);
    make([&](std::span<const std::byte> bytes) { file.write(bytes); });
    file.finish(made_from);
    // Otherwise the next run would not believe it.
    fs::permissions(
        aside,
        fs::perms::group_write | fs::perms::others_write,
        fs::perm_options::remove);
    is_there = std::rename(aside.c_str(), path.c_str()) == 0;
  } catch (const UserError&) {
    // The tokens are needed, the file is not.
    is_there = false;
  } catch (const fs::filesystem_error&) {
    is_there = false;
  }
  if (!is_there) {
    unlink(aside.c_str());
  }
  return is_there;
}

// `texts_owner` could have changed the texts as well as their tokens.
bool take_cache(
    const std::string& path,
    uint64_t made_from,
    std::optional<int64_t> texts_owner,
    Tokenized& into) {
  into.made_again_because = distrust(path, texts_owner);
  if (!into.made_again_because.empty()) {
    return false;
  }
  TokenCacheOpening opening = open_token_cache(path, made_from);
  if (!opening.cache) {
    into.made_again_because = std::move(opening.why);
    return false;
  }
  into.stream.add(std::move(*opening.cache));
  return true;
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
  const uint64_t from = made_from(files, tokenizer_path);
  result.cache = (fs::path(folder) / cache_name(from)).string();
  const auto owner = owner_of(files.paths.front());
  result.from_cache = take_cache(result.cache, from, owner, result);
  if (result.from_cache) {
    return result;
  }
  const std::string why = result.made_again_because;
  const auto make = [&](const ByteSink& sink) {
    make_tokens(files, tokenizer, result.stream.token_bytes, sink);
  };
  const bool is_kept = write_cache(result.cache, from, make);
  std::vector<std::byte> tokens;
  if (!is_kept) {
    make([&](std::span<const std::byte> bytes) {
      tokens.insert(tokens.end(), bytes.begin(), bytes.end());
    });
  }
  if (made_from(files, tokenizer_path) != from) {
    unlink(result.cache.c_str());
    throw UserError(
        "texts changed while they were read; start again when nothing writes "
        "to them");
  }
  if (is_kept && take_cache(result.cache, from, owner, result)) {
    result.made_again_because = why;
    return result;
  }
  WEFT_CHECK_USER(
      !is_kept,
      result.cache,
      " was made and is not what was written: ",
      result.made_again_because,
      ". Is its disk all right?");
  result.made_again_because = why;
  result.cache.clear();
  result.stream.add(cat("the tokens of ", files.paths[0]), std::move(tokens));
  return result;
}

}  // namespace weft
