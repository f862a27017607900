// SPDX-License-Identifier: Apache-2.0
#include "data/token_cache.h"

#include "checkpoint/test_folder.h"
#include "data/dataset.h"
#include "data/test_tokenizer.h"
#include "data/token_cache_file.h"

#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string one_cache(const std::string& folder) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".weft-tokens-")) {
      EXPECT_TRUE(found.empty()) << entry.path() << " and " << found;
      found = entry.path().string();
    }
  }
  return found;
}

// Texts whose tokens take more than one block.
class TokenCacheTest : public testing::Test {
 protected:
  TokenCacheTest() {
    write_test_tokenizer(tokenizer_, {{"a", "b"}});
    std::string text;
    for (int i = 0; i < 50000; ++i) {
      text += static_cast<char>('a' + i % 211 * (i % 211) % 23);
    }
    write_file(folder_ / "a.txt", text);
  }

  Tokenized open() const {
    return tokenize_files(
        find_text_files({folder_.path()}, {}), tokenizer_, folder_.path());
  }

  static std::string tokens_of(const Tokenized& tokens) {
    const auto bytes = tokens.stream.segments.at(0).bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Spoils the file, and expects that it is made again for this reason.
  void spoil(const std::function<void(std::string&)>& how, const char* why) {
    const std::string path = one_cache(folder_.path());
    std::string content = read_file(path);
    how(content);
    write_file(path, content);
    fs::permissions(path, fs::perms(0644));
    const Tokenized again = open();
    EXPECT_FALSE(again.from_cache);
    EXPECT_TRUE(contains(again.made_again_because, why))
        << again.made_again_because;
    EXPECT_EQ(tokens_of(again), tokens_);
    EXPECT_TRUE(open().from_cache);
    EXPECT_EQ(open().made_again_because, "");
  }

  const TestFolder folder_;
  const TestFolder other_;
  const std::string tokenizer_ = other_ / "tokenizer.json";
  std::string tokens_;
};

TEST_F(TokenCacheTest, WhatIsNotWholeIsMadeAgain) {
  tokens_ = tokens_of(open());
  ASSERT_GT(std::ssize(tokens_), kTokenBlockBytes);
  spoil([](std::string& all) { all.resize(10); }, "cut short to 10 bytes");
  spoil(
      [](std::string& all) { all.resize(all.size() - 2000); },
      "it does not end as one: it is cut short");
  spoil([](std::string& all) { all.erase(100, 2); }, "were written");
  spoil(
      [](std::string& all) { all[70000] ^= 1; }, "bytes from 65536 on differs");
  spoil(
      [](std::string& all) { all[all.size() - 60] ^= 1; },
      "its checksums were");
  spoil(
      [](std::string& all) { all[all.size() - 20] ^= 1; },
      "its end was altered");
}

// Tokens that another user put there, under the name that these texts give.
TEST_F(TokenCacheTest, OneOfAnotherUserIsMadeAgain) {
  const std::string tokens = tokens_of(open());
  const std::string path = one_cache(folder_.path());
  EXPECT_TRUE(open().from_cache);
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  const Tokenized again = open();
  EXPECT_FALSE(again.from_cache);
  EXPECT_TRUE(contains(again.made_again_because, "may be written by others"));
  EXPECT_TRUE(open().from_cache);
  const TestFolder other;
  fs::rename(path, other / "tokens");
  fs::create_symlink(other / "tokens", path);
  EXPECT_FALSE(open().from_cache);
  EXPECT_TRUE(open().from_cache);
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  ASSERT_EQ(::chown(path.c_str(), 12'345, 12'345), 0);
  EXPECT_FALSE(open().from_cache);
  ASSERT_EQ(::chown(path.c_str(), 12'345, 12'345), 0);
  // Whose the texts are may say what their tokens are.
  ASSERT_EQ(::chown((folder_ / "a.txt").c_str(), 12'345, 12'345), 0);
  EXPECT_TRUE(open().from_cache);
  EXPECT_EQ(tokens_of(open()), tokens);
}

TEST_F(TokenCacheTest, OneOfOtherTextsIsMadeAgain) {
  tokens_ = tokens_of(open());
  const std::string first = one_cache(folder_.path());
  const std::string content = read_file(first);
  fs::remove(first);
  write_file(folder_ / "a.txt", "others, and a good many of them");
  tokens_ = tokens_of(open());
  spoil(
      [&](std::string& all) { all = content; },
      "it was made from other texts or by another tokenizer");
}

TEST_F(TokenCacheTest, ATextOfEqualSizeAndTimeMakesOthers) {
  open();
  const std::string text = folder_ / "a.txt";
  const auto time = fs::last_write_time(text);
  std::string content = read_file(text);
  content.front() = content.front() == 'x' ? 'y' : 'x';
  write_file(text, content);
  fs::last_write_time(text, time);
  EXPECT_FALSE(open().from_cache);
}

TEST_F(TokenCacheTest, ALargeOneIsComparedWhereItIsRead) {
  const std::string path = other_ / "large.tokens";
  {
    TokenCacheWriter file(path);
    for (int i = 0; i < 3; ++i) {
      file.write(std::vector<std::byte>(kTokenBlockBytes, std::byte{7}));
    }
    file.finish(5);
  }
  std::string content = read_file(path);
  content[kTokenBlockBytes + 9] ^= 1;
  write_file(path, content);
  EXPECT_TRUE(contains(open_token_cache(path, 5).why, "it was altered"));
  TokenCacheOpening opening = open_token_cache(path, 5, 0);
  ASSERT_TRUE(opening.cache) << opening.why;
  TokenStream stream;
  stream.add(std::move(*opening.cache));
  const auto dataset = make_stream_dataset(
      std::move(stream), 16, std::nullopt, std::nullopt, {});
  std::vector<std::byte> sample(16 * 8);
  dataset->read(0, 0, sample);
  EXPECT_EQ(sample[0], std::byte{7});
  const int64_t bad = kTokenBlockBytes / 2 / 16 + 20;
  EXPECT_TRUE(contains(
      user_error([&] { dataset->read(bad, 0, sample); }),
      path + " was altered after it was made: the checksum of its bytes from "
             "65536 on differs. Remove it"));
}

TEST_F(TokenCacheTest, SeveralMayMakeItAtOnce) {
  std::vector<std::string> found(6);
  {
    std::vector<std::jthread> threads;
    for (std::string& one : found) {
      threads.emplace_back([&] { one = tokens_of(open()); });
    }
  }
  for (const std::string& one : found) {
    EXPECT_EQ(one, found.front());
  }
  EXPECT_FALSE(one_cache(folder_.path()).empty());
  EXPECT_TRUE(open().from_cache);
}

}  // namespace
}  // namespace weft
