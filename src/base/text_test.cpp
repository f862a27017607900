// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include "base/error.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

// A folder of this test's own, removed at its end.
class Folder {
 public:
  Folder() {
    path_ = fs::temp_directory_path() / cat("weft_text_test_", getpid());
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }
  size_t file_count() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(path_)) {
      ++count;
    }
    return count;
  }

 private:
  fs::path path_;
};

template <typename Call>
std::string user_error(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, JoinAndSplitAreInverse) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a", "", "c"}, ","), "a,,c");
  EXPECT_EQ(split("a,,c", ','), (std::vector<std::string>{"a", "", "c"}));
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
}

TEST(Text, WordsAreIdentifiers) {
  EXPECT_TRUE(is_word("_a9"));
  EXPECT_FALSE(is_word(""));
  EXPECT_FALSE(is_word("9a"));
  EXPECT_FALSE(is_word("a b"));
}

TEST(Text, DoublesLookLikeDoubles) {
  EXPECT_EQ(print_double(1), "1.0");
  EXPECT_EQ(print_double(-0.0), "-0.0");
  EXPECT_EQ(print_double(1e-5), "1e-05");
  EXPECT_EQ(print_double(0.1), "0.1");
  EXPECT_EQ(print_double(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(print_double(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(print_double(std::nan("")), "nan");
}

TEST(Text, EveryDoubleReadsBackAsItself) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) {
      continue;
    }
    const std::string text = print_double(value);
    EXPECT_NE(text.find_first_of(".e"), std::string::npos) << text;
    bool is_integer = true;
    int64_t integer = 0;
    const double back = Scanner(text, "t").expect_number(&is_integer, &integer);
    EXPECT_EQ(std::bit_cast<uint64_t>(back), std::bit_cast<uint64_t>(value))
        << text;
    EXPECT_FALSE(is_integer) << text;
  }
}

TEST(Text, QuoteEscapesWhatWouldBreakALine) {
  EXPECT_EQ(quote("a\"b\\c\n\t\x01"), "\"a\\\"b\\\\c\\n\\t\\x01\"");
  EXPECT_EQ(quote("\xc3\xa9"), "\"\xc3\xa9\"");
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-123456), "-123,456");
  EXPECT_EQ(
      with_commas(std::numeric_limits<int64_t>::min()),
      "-9,223,372,036,854,775,808");
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(human_bytes(91.24 * (1 << 30)), "91.2 GiB");
  EXPECT_EQ(human_bytes(1023.9), "1.00 KiB");
  EXPECT_EQ(human_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(human_count(7), "7");
  EXPECT_EQ(human_count(0.25), "0.25");
  EXPECT_EQ(human_count(3.14e12), "3.14 T");
  EXPECT_EQ(human_count(12e9), "12.0 G");
  EXPECT_EQ(human_count(999.7e3), "1.00 M");
}

TEST(Text, HexIsInverse) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  EXPECT_EQ(from_hex(to_hex(bytes)), bytes);
  EXPECT_EQ(from_hex("fF"), "\xff");
  EXPECT_EQ(
      user_error([] { from_hex("abc"); }),
      "hexadecimal text has an odd number of digits: 3");
  EXPECT_EQ(
      user_error([] { from_hex("0g"); }), "not hexadecimal digits: \"0g\"");
}

TEST(Text, FilesAreWrittenWhole) {
  const Folder folder;
  const std::string path = folder.file("a.txt");
  const std::string content(300000, 'x');
  write_file(path, "old");
  write_file(path, content);
  EXPECT_EQ(read_file(path), content);
  EXPECT_EQ(folder.file_count(), 1U) << "something was left beside the file";
  write_file(path, "");
  EXPECT_EQ(read_file(path), "");
}

TEST(Text, WritingFollowsALink) {
  const Folder folder;
  write_file(folder.file("target"), "old");
  fs::create_symlink(folder.file("target"), folder.file("link"));
  write_file(folder.file("link"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.file("link")));
  EXPECT_EQ(read_file(folder.file("target")), "new");
}

TEST(Text, WhatIsWrittenAsideFollowsNoLink) {
  const Folder folder;
  const std::string precious = folder.file("precious");
  const std::string path = folder.file("file");
  write_file(precious, "bytes");
  fs::create_symlink(precious, cat(path, ".", getpid(), ".tmp"));
  write_file(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(read_file(precious), "bytes");
  EXPECT_EQ(folder.file_count(), 2U);
}

TEST(Text, FileErrorsNameThePathAndTheReason) {
  const Folder folder;
  const std::string path = folder.file("no/such/file");
  EXPECT_EQ(
      user_error([&] { read_file(path); }),
      cat("cannot read '", path, "': No such file or directory"));
  EXPECT_EQ(
      user_error([&] { write_file(path, ""); }),
      cat("cannot write '", path, "': No such file or directory"));
  EXPECT_EQ(
      user_error([&] { read_file(folder.file("")); }),
      cat("cannot read '", folder.file(""), "': Is a directory"));
}

TEST(Error, ChecksCarryWhereAndWhat) {
  try {
    WEFT_CHECK(1 == 2, "sizes differ: ", 1, " and ", 2);
    FAIL();
  } catch (const InternalError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("text_test.cpp:"), std::string::npos);
    EXPECT_NE(message.find("1 == 2"), std::string::npos);
    EXPECT_NE(message.find("sizes differ: 1 and 2"), std::string::npos);
  }
  EXPECT_EQ(user_error([] { WEFT_CHECK_USER(false, "no ", 3); }), "no 3");
}

}  // namespace
}  // namespace weft
