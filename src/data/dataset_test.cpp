// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include "checkpoint/tensor_file.h"
#include "checkpoint/test_folder.h"
#include "data/data_identity.h"
#include "data/test_tokenizer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> read_i64(
    const Dataset& dataset, int64_t sample, size_t field) {
  std::vector<std::byte> bytes(
      static_cast<size_t>(storage_bytes(dataset.fields()[field].type)));
  dataset.read(sample, field, bytes);
  return values_of<int64_t>(bytes);
}

std::string open_error(
    const std::string& path, const DatasetOptions& options = {.sequence = 4}) {
  return user_error([&] { open_dataset(path, options); });
}

template <typename T>
void write_values(const std::string& path, const std::vector<T>& values) {
  const std::vector<std::byte> bytes = bytes_of(values);
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string npy(const std::string& header, const std::string& elements) {
  std::string text = header;
  text.append(64 - (10 + text.size() + 1) % 64, ' ');
  text += '\n';
  std::string start("\x93NUMPY\x01\0", 8);
  start += static_cast<char>(text.size() & 255);
  start += static_cast<char>(text.size() >> 8);
  return start + text + elements;
}

TEST(TextDataset, BytesOfAFolder) {
  const TestFolder folder;
  fs::create_directories(folder / "b");
  fs::create_directories(folder / ".git");
  write_file(folder / "b/one.txt", "fghij");
  write_file(folder / "a.txt", "abcde");
  write_file(folder / "c.md", "KLM");
  write_file(folder / "empty.txt", "");
  write_file(folder / "picture.png", std::string("ab\0cd", 5));
  write_file(folder / ".git/config", "xxxxxxxxx");
  const auto dataset = open_dataset(folder.path(), {.sequence = 4});
  // 13 tokens: three samples of four and the token after.
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_TRUE(dataset->is_stream());
  EXPECT_EQ(dataset->vocabulary(), 256);
  EXPECT_EQ(
      dataset->fields(),
      (std::vector<Field>{
          {"tokens", parse_type("i64[4]")}, {"labels", parse_type("i64[4]")}}));
  using Tokens = std::vector<int64_t>;
  EXPECT_EQ(read_i64(*dataset, 0, 0), (Tokens{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(read_i64(*dataset, 0, 1), (Tokens{'b', 'c', 'd', 'e'}));
  EXPECT_EQ(read_i64(*dataset, 1, 0), (Tokens{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(read_i64(*dataset, 2, 1), (Tokens{'j', 'K', 'L', 'M'}));
  EXPECT_EQ(
      dataset->notes(),
      std::vector<std::string>{"1 binary files were left out"});

  const auto filtered =
      open_dataset(folder.path(), {.sequence = 2, .extensions = {".md", ".x"}});
  EXPECT_EQ(filtered->size(), 1);
  EXPECT_EQ(read_i64(*filtered, 0, 0), (Tokens{'K', 'L'}));
}

TEST(TextDataset, Mistakes) {
  const TestFolder folder;
  EXPECT_TRUE(
      contains(open_error(folder / "none"), "there is no such file or folder"));
  EXPECT_TRUE(contains(open_error(folder.path()), "is an empty folder"));
  write_file(folder / "a.txt", "abcd");
  EXPECT_TRUE(contains(
      open_error(folder.path()),
      "no whole sample: there are 4 tokens, and a sample of sequence 4 takes"));
  EXPECT_TRUE(contains(open_error(folder.path(), {}), "say how many tokens"));
  EXPECT_TRUE(contains(
      open_error(folder.path(), {.sequence = 1, .extensions = {".md"}}),
      "no text in " + folder.path() + " (files ending in .md)"));
  EXPECT_TRUE(contains(
      user_error([&] { open_dataset(std::vector<std::string>{}, {}); }),
      "no data"));
}

TEST(TextDataset, TokensAreMadeOnce) {
  const TestFolder folder;
  const TestFolder other;
  const std::string tokenizer = other / "tokenizer.json";
  write_test_tokenizer(tokenizer, {{"a", "b"}});
  write_file(folder / "a.txt", "abc");
  write_file(folder / "b.txt", "ab");
  const DatasetOptions options = {.sequence = 2, .tokenizer = tokenizer};
  const auto caches = [&] {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(".weft-tokens-") && name.ends_with(".tokens")) {
        found.push_back(entry.path().string());
      }
    }
    return found;
  };
  using Tokens = std::vector<int64_t>;
  {
    const auto dataset = open_dataset(folder.path(), options);
    // ab c END ab END
    EXPECT_EQ(dataset->size(), 2);
    EXPECT_EQ(dataset->vocabulary(), 258);
    EXPECT_EQ(read_i64(*dataset, 0, 0), (Tokens{256, 'c'}));
    EXPECT_EQ(read_i64(*dataset, 1, 0), (Tokens{257, 256}));
    EXPECT_EQ(read_i64(*dataset, 1, 1), (Tokens{256, 257}));
  }
  ASSERT_EQ(caches().size(), 1U);
  // It is used, and not made again.
  const auto written = fs::last_write_time(caches()[0]);
  EXPECT_EQ(
      read_i64(*open_dataset(folder.path(), options), 0, 0),
      (Tokens{256, 'c'}));
  EXPECT_EQ(fs::last_write_time(caches()[0]), written);
  // A changed text makes others.
  write_file(folder / "b.txt", "abab");
  EXPECT_EQ(
      read_i64(*open_dataset(folder.path(), options), 0, 0),
      (Tokens{256, 'c'}));
  EXPECT_EQ(caches().size(), 2U);
}

TEST(DataIdentity, FollowsFromTheSamplesAlone) {
  const TestFolder folder;
  const TestFolder other;
  std::string text(5000, 'a');
  write_file(folder / "a.txt", text);
  write_file(other / "b.txt", text);
  const auto of = [](const TestFolder& from, int64_t sequence) {
    return identity(*open_dataset(from.path(), {.sequence = sequence}));
  };
  const std::string first = of(folder, 10);
  EXPECT_TRUE(first.starts_with(
      "499 samples of labels i64[10], tokens i64[10], checksum "))
      << first;
  EXPECT_EQ(of(other, 10), first);
  EXPECT_NE(of(other, 20), first);
  text[4990] = 'b';
  write_file(other / "b.txt", text);
  EXPECT_NE(of(other, 10), first) << "the last label is another";
  text[4990] = 'a';
  write_file(other / "b.txt", text + text);
  EXPECT_NE(of(other, 10), first);
}

TEST(TextDataset, TokensStayInMemoryWhereNothingCanBeWritten) {
  const TestFolder other;
  const std::string tokenizer = other / "tokenizer.json";
  write_test_tokenizer(tokenizer, {{"a", "b"}});
  write_file(other / "text.txt", std::string(100, 'a'));
  const int file = open((other / "text.txt").c_str(), O_RDONLY);
  // By this name the file lies in a folder where nobody can make one.
  const auto dataset = open_dataset(
      cat("/proc/self/fd/", file), {.sequence = 2, .tokenizer = tokenizer});
  close(file);
  EXPECT_GT(dataset->size(), 10);
  ASSERT_EQ(dataset->notes().size(), 1U);
  EXPECT_TRUE(contains(dataset->notes()[0], "tokens are kept in memory"));
}

TEST(TokenDataset, SeveralFiles) {
  const TestFolder folder;
  write_values<uint16_t>(folder / "a.bin", {1, 2, 60000});
  write_values<uint16_t>(folder / "b.bin", {4, 5, 6});
  const auto whole = open_dataset(folder.path(), {.sequence = 5});
  EXPECT_EQ(read_i64(*whole, 0, 0), (std::vector<int64_t>{1, 2, 60000, 4, 5}));
  const auto turned = open_dataset(
      std::vector<std::string>{folder / "b.bin", folder / "a.bin"},
      {.sequence = 2});
  EXPECT_EQ(turned->size(), 2);
  EXPECT_EQ(read_i64(*turned, 1, 0), (std::vector<int64_t>{6, 1}));

  write_values<uint32_t>(folder / "c.bin", {100000, 2});
  const auto wide =
      open_dataset(folder / "c.bin", {.sequence = 1, .token_bytes = 4});
  EXPECT_EQ(read_i64(*wide, 0, 0), (std::vector<int64_t>{100000}));
}

TEST(TokenDataset, Mistakes) {
  const TestFolder folder;
  write_values<uint16_t>(folder / "a.bin", {1, 2, 3});
  write_values<uint16_t>(folder / "b.bin", {4, 700, 6});
  const auto dataset =
      open_dataset(folder.path(), {.sequence = 5, .vocabulary = 512});
  EXPECT_TRUE(contains(
      user_error([&] { read_i64(*dataset, 0, 0); }),
      (folder / "b.bin") +
          ": token 700 at position 1 is not below the vocabulary of 512"));
  EXPECT_TRUE(contains(
      open_error(folder.path(), {.sequence = 1, .token_bytes = 4}),
      "a.bin is cut short or of another dtype: its 6 bytes"));
  EXPECT_TRUE(contains(
      open_error(folder.path(), {.sequence = 1, .token_bytes = 3}),
      "2 or 4 bytes"));
  write_file(folder / "c.txt", "text");
  EXPECT_TRUE(contains(
      user_error([&] {
        open_dataset(
            std::vector<std::string>{folder / "a.bin", folder / "c.txt"},
            {.sequence = 1});
      }),
      "are data of different kinds"));
}

TEST(ArrayDataset, FieldsOfFiles) {
  const TestFolder folder;
  write_file(
      folder / "y.npy",
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc"));
  write_file(
      folder / "x.npy",
      npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }",
          std::string(48, '\1')));
  {
    TensorFileWriter file(
        folder / "more.safetensors", {{"mask", parse_type("i64[3, 1]")}});
    file.write(bytes_of<int64_t>({7, 8, 9}));
    file.finish();
  }
  const auto dataset = open_dataset(folder.path(), {});
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_FALSE(dataset->is_stream());
  EXPECT_EQ(
      dataset->fields(),
      (std::vector<Field>{
          {"mask", parse_type("i64[1]")},
          {"x", parse_type("i64[2]")},
          {"y", parse_type("u8[]")}}));
  EXPECT_EQ(read_i64(*dataset, 1, 0), (std::vector<int64_t>{8}));
  EXPECT_EQ(
      read_i64(*dataset, 2, 1), (std::vector<int64_t>(2, 0x0101010101010101)));
  std::vector<std::byte> one(1);
  dataset->read(2, 2, one);
  EXPECT_EQ(one[0], std::byte{'c'});
}

TEST(ArrayDataset, Mistakes) {
  const TestFolder folder;
  const std::string path = folder / "x.npy";
  const auto error = [&](const std::string& header, size_t bytes) {
    write_file(path, npy(header, std::string(bytes, 'x')));
    return open_error(path, {});
  };
  EXPECT_TRUE(contains(
      error("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16),
      "it is in Fortran order"));
  EXPECT_TRUE(contains(
      error("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", 16),
      "it is big-endian"));
  EXPECT_TRUE(contains(
      error("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", 16),
      "elements of dtype \"<U4\" are not supported"));
  EXPECT_TRUE(contains(
      error(
          "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
          16),
      "elements that are records are not supported"));
  EXPECT_TRUE(contains(
      error("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 15),
      "it is cut short: its elements take 16 bytes and 15 are there"));
  EXPECT_TRUE(contains(
      error("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }", 16),
      "a size of the shape must be a whole number, 0 or more, found -1"));
  EXPECT_TRUE(contains(
      error("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", 0),
      "no whole sample"));
  EXPECT_TRUE(contains(
      error("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4),
      "is a single number"));
  write_file(path, "not an array");
  EXPECT_TRUE(contains(open_error(path, {}), "it is not a .npy file"));
  write_file(path, std::string("\x93NUMPY\x01\0\xFF\xFFxx", 12));
  EXPECT_TRUE(contains(open_error(path, {}), "it ends in its header"));

  write_file(
      path,
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc"));
  write_file(
      folder / "y.npy",
      npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "ab"));
  EXPECT_TRUE(contains(
      open_error(folder.path(), {}),
      "arrays disagree on the number of samples (dim 0): "));
  fs::create_directories(folder / "z");
  fs::copy(path, folder / "z/x.npy");
  EXPECT_TRUE(contains(
      user_error([&] {
        open_dataset(std::vector<std::string>{path, folder / "z/x.npy"}, {});
      }),
      "there is an array \"x\" already"));
}

}  // namespace
}  // namespace weft
