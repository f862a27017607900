// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include "checkpoint/test_folder.h"
#include "data/pre_split.h"
#include "data/test_tokenizer.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace weft {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t size = first_word_bytes(text);
    words.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return words;
}

TEST(PreSplit, ByTheRuleOfGpt2) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(
      words_of("I'll say it's"), (Words{"I", "'ll", " say", " it", "'s"}));
  EXPECT_EQ(words_of("a1 22!? x"), (Words{"a", "1", " 22", "!?", " x"}));
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a\n\n b"), (Words{"a", "\n\n", " b"}));
  EXPECT_EQ(words_of("a\nb"), (Words{"a", "\n", "b"}));
  EXPECT_EQ(words_of("a \n"), (Words{"a", " \n"}));
  EXPECT_EQ(words_of(" 'sx"), (Words{" '", "sx"}));
  EXPECT_EQ(
      words_of("\xC3\xA9t\xC3\xA9 x"), (Words{"\xC3\xA9t\xC3\xA9", " x"}));
}

TEST(Tokenizer, MergesByRank) {
  const TestFolder folder;
  const std::string path = folder / "tokenizer.json";
  // "bc" is merged before "ab" could be.
  write_test_tokenizer(path, {{"b", "c"}, {"a", "b"}, {"a", "bc"}});
  Tokenizer tokenizer(path);
  const uint32_t merged = 256;
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<uint32_t>{merged + 2}));
  EXPECT_EQ(tokenizer.encode("abbc"), (std::vector<uint32_t>{257, 256}));
  EXPECT_EQ(tokenizer.encode("a"), (std::vector<uint32_t>{'a'}));
  EXPECT_EQ(tokenizer.encode(""), (std::vector<uint32_t>{}));
  EXPECT_EQ(tokenizer.encode("ab ab"), (std::vector<uint32_t>{257, ' ', 257}));
  EXPECT_EQ(tokenizer.vocabulary(), 260);
  EXPECT_EQ(tokenizer.end_of_text(), 259U);
  EXPECT_EQ(
      tokenizer.encode("a<|endoftext|>b"),
      (std::vector<uint32_t>{'a', 259, 'b'}));
}

TEST(Tokenizer, LongWordsTakeNoLongTime) {
  const TestFolder folder;
  const std::string path = folder / "tokenizer.json";
  write_test_tokenizer(path, {{"a", "a"}, {"aa", "aa"}});
  Tokenizer tokenizer(path);
  const auto tokens = tokenizer.encode(std::string(1000002, 'a'));
  EXPECT_EQ(tokens.size(), 250001U);
  EXPECT_EQ(tokens.front(), 257U);
  EXPECT_EQ(tokens.back(), 256U);
}

TEST(Tokenizer, SaysWhatIsBroken) {
  const TestFolder folder;
  const std::string path = folder / "tokenizer.json";
  write_test_tokenizer(path, {{"a", "b"}});
  const std::string text = read_file(path);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    WEFT_CHECK(at != std::string::npos, from);
    write_file(path, changed.replace(at, from.size(), to));
    return user_error([&] { Tokenizer tokenizer(path); });
  };
  const std::string start = "cannot read the tokenizer " + path + ": ";
  EXPECT_EQ(
      error("\"ab\":256", "\"ab\":-1"), start + "a token has the number -1");
  EXPECT_EQ(
      error("\"ab\":256", "\"ab\":4294967296"),
      start + "a token has the number 4294967296");
  EXPECT_EQ(
      error("\"ab\":256", "\"ab\":256.5"),
      start + "expected a whole number, found 256.5");
  EXPECT_TRUE(contains(
      error("\"ab\":256", "\"ab\":256,\"ab\":256"),
      ": the key \"ab\" stands twice in one object"));
  EXPECT_TRUE(contains(
      error(
          "\"normalizer\":null", "\"normalizer\":" + std::string(100000, '[')),
      ": values are nested deeper than 100"));
}

TEST(Tokenizer, SaysWhatIsNotSupported) {
  const TestFolder folder;
  const std::string path = folder / "tokenizer.json";
  write_test_tokenizer(path, {{"a", "b"}});
  const std::string text = read_file(path);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    WEFT_CHECK(at != std::string::npos, from);
    write_file(path, changed.replace(at, from.size(), to));
    return user_error([&] { Tokenizer tokenizer(path); });
  };
  const std::string start = "cannot read the tokenizer " + path + ": ";
  EXPECT_TRUE(contains(
      error("\"type\":\"BPE\"", "\"type\":\"Unigram\""),
      start + "a model of type Unigram is not supported"));
  EXPECT_TRUE(contains(
      error("\"normalizer\":null", R"("normalizer":{"type":"NFC"})"),
      start + "the normalizer NFC is not supported"));
  EXPECT_TRUE(contains(
      error(
          "\"pre_tokenizer\":{\"type\":\"ByteLevel\"",
          "\"pre_tokenizer\":{\"type\":\"Metaspace\""),
      "the pre_tokenizer Metaspace is not supported"));
  EXPECT_TRUE(contains(
      error("\"use_regex\":true", "\"use_regex\":false"),
      "a pre_tokenizer with use_regex=false is not supported"));
  EXPECT_TRUE(contains(
      error(
          "\"post_processor\":null",
          R"("post_processor":{"type":"TemplateProcessing"})"),
      "the post_processor TemplateProcessing is not supported"));
  EXPECT_TRUE(contains(
      error("\"byte_fallback\":false", "\"byte_fallback\":true"),
      "a model with byte_fallback is not supported"));
  EXPECT_TRUE(contains(
      error("\"lstrip\":false", "\"lstrip\":true"),
      "the added token <|endoftext|> with lstrip is not supported"));
  EXPECT_TRUE(contains(
      error("[\"a\",\"b\"]", "[\"a\",\"zz\"]"), "the vocabulary lacks \"zz\""));
  EXPECT_TRUE(contains(error("{", "["), start));
  write_file(path, "{}");
  EXPECT_TRUE(contains(
      user_error([&] { Tokenizer tokenizer(path); }), "it has no model"));
  EXPECT_TRUE(contains(
      user_error([&] { Tokenizer tokenizer(folder / "none"); }), "none"));
}

// The same tokens as the library that the file format belongs to.
TEST(Tokenizer, AgreesWithHuggingFace) {
  const std::string python = python_of_clone();
  const TestFolder folder;
  write_file(
      folder / "make.py",
      R"py(
import random, struct, sys
try:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
except ImportError:
    sys.exit(3)
random.seed(5)
alphabet = "abcdefghij'stTreE0123 .,!?-\n\t(é)"
words = ["".join(random.choices(alphabet, k=random.randint(1, 9))) for _ in range(300)]
text = "".join(random.choice(words) + random.choice([" ", "", "  ", "\n", "'s ", "'ll", "\r\n"])
               for _ in range(6000)) + "<|endoftext|>end  "
for prefix in (0, 1):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(prefix))
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=900, show_progress=False, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.save(f"{sys.argv[1]}/tokenizer-{prefix}.json")
    ids = t.encode(text).ids
    open(f"{sys.argv[1]}/ids-{prefix}", "wb").write(struct.pack(f"<{len(ids)}I", *ids))
open(f"{sys.argv[1]}/text", "w", newline="").write(text)
)py");
  if (python.empty() ||
      std::system(
          cat(python, " ", folder / "make.py", " ", folder.path()).c_str()) !=
          0) {
    GTEST_SKIP() << "the tokenizers library is not here";
  }
  for (const char* prefix : {"0", "1"}) {
    Tokenizer tokenizer(folder / cat("tokenizer-", prefix, ".json"));
    const std::string ids = read_file(folder / cat("ids-", prefix));
    std::vector<uint32_t> expected(ids.size() / 4);
    std::memcpy(expected.data(), ids.data(), ids.size());
    ASSERT_GT(expected.size(), 5000U);
    EXPECT_EQ(tokenizer.encode(read_file(folder / "text")), expected);
    EXPECT_EQ(tokenizer.vocabulary(), 900);
  }
}

}  // namespace
}  // namespace weft
