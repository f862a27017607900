// SPDX-License-Identifier: Apache-2.0
#include "base/readable.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Readable, LeavesMessagesAlone) {
  const std::string message =
      "step.graph:3:7: expected ':', found \"\xC3\xA9\"\n\ta second line";
  EXPECT_EQ(readable(message), message);
  const std::string long_path = "/" + std::string(300, 'x') + "/y.graph: no";
  EXPECT_EQ(readable(long_path), long_path);
}

TEST(Readable, KeepsHeadAndTail) {
  std::string words = "FILE:1:2: begin ";
  for (int i = 0; i < 100000; ++i) {
    words += "word ";
  }
  const std::string out = readable(words + "end");
  EXPECT_LE(out.size(), kLongestMessageBytes);
  EXPECT_GT(out.size(), kLongestMessageBytes - 8);
  EXPECT_TRUE(out.starts_with("FILE:1:2: begin word"));
  EXPECT_TRUE(out.ends_with("word end"));
}

TEST(Readable, ShortensLongWords) {
  const std::string name(5000, 'n');
  const std::string out =
      readable("FILE:1:2: %" + name + " is not defined before it is used");
  EXPECT_LT(out.size(), 500U);
  EXPECT_TRUE(out.starts_with("FILE:1:2: %nnn"));
  EXPECT_TRUE(out.ends_with("nnn is not defined before it is used"));
}

TEST(Readable, WritesBytesThatAreNoText) {
  EXPECT_EQ(readable("a\x1b[2Jb\x7f"), "a\\x1b[2Jb\\x7f");
  EXPECT_EQ(readable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(readable("\xff\xC3"), "\\xff\\xc3");
  // Overlong, a surrogate, beyond the last character.
  EXPECT_EQ(readable("\xC0\xAF"), "\\xc0\\xaf");
  EXPECT_EQ(readable("\xED\xA0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(readable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(readable("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Readable, CutsBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 50; ++i) {
    text += "\xE2\x82\xAC";
  }
  for (size_t most = 10; most < 60; ++most) {
    const std::string out = shortened(text, most);
    EXPECT_LE(out.size(), most);
    EXPECT_EQ(readable(out), out);
  }
}

}  // namespace
}  // namespace weft
