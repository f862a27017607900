// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace weft {
namespace {

template <typename Call>
std::string error_of(std::string_view text, Call&& call) {
  Scanner scanner(text, "t");
  try {
    call(scanner);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Scanner, SkipsSpacesAndComments) {
  Scanner scanner("  // first\n\ta // second\n b//", "t");
  EXPECT_EQ(scanner.expect_word(), "a");
  EXPECT_EQ(scanner.peek(), 'b');
  EXPECT_EQ(scanner.expect_word(), "b");
  EXPECT_TRUE(scanner.at_end());
  EXPECT_EQ(scanner.peek(), '\0');
}

TEST(Scanner, AWordTokenIsAWholeWord) {
  Scanner scanner("input inputs = x", "t");
  EXPECT_TRUE(scanner.looking_at("input"));
  EXPECT_TRUE(scanner.take("input"));
  EXPECT_FALSE(scanner.take("input"));
  EXPECT_TRUE(scanner.take("inputs"));
  EXPECT_TRUE(scanner.take("="));
  scanner.expect("x");
  EXPECT_TRUE(scanner.at_end());
}

TEST(Scanner, Integers) {
  Scanner scanner("0 -7 +3 9223372036854775807 -9223372036854775808", "t");
  EXPECT_EQ(scanner.expect_int(), 0);
  EXPECT_EQ(scanner.expect_int(), -7);
  EXPECT_EQ(scanner.expect_int(), 3);
  EXPECT_EQ(scanner.expect_int(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(scanner.expect_int(), std::numeric_limits<int64_t>::min());
  const auto expect_int = [](Scanner& s) { s.expect_int(); };
  EXPECT_EQ(
      error_of("9223372036854775808", expect_int),
      "t:1:1: number out of range: 9223372036854775808");
  EXPECT_EQ(
      error_of("\n 1.5", expect_int),
      "t:2:2: expected an integer, found \"1.5\"");
  EXPECT_EQ(
      error_of("-", expect_int), "t:1:1: expected an integer, found \"-\"");
  EXPECT_EQ(
      error_of("inf", expect_int), "t:1:1: expected an integer, found \"inf\"");
}

TEST(Scanner, Numbers) {
  bool is_integer = false;
  int64_t integer = 0;
  const auto number = [&](std::string_view text) {
    Scanner scanner(text, "t");
    const double value = scanner.expect_number(&is_integer, &integer);
    EXPECT_TRUE(scanner.at_end()) << text;
    return value;
  };
  EXPECT_EQ(number("12"), 12);
  EXPECT_TRUE(is_integer);
  EXPECT_EQ(integer, 12);
  EXPECT_EQ(number("12."), 12);
  EXPECT_FALSE(is_integer);
  EXPECT_EQ(number(".5"), 0.5);
  EXPECT_EQ(number("-1.5e+3"), -1500);
  EXPECT_EQ(number("+2E-1"), 0.2);
  EXPECT_EQ(number("inf"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(number("-inf"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(number("nan")));
  EXPECT_FALSE(is_integer);
  const auto expect_number = [&](Scanner& s) {
    s.expect_number(&is_integer, &integer);
  };
  EXPECT_EQ(
      error_of("1e999", expect_number), "t:1:1: number out of range: 1e999");
  EXPECT_EQ(
      error_of("infinite", expect_number),
      "t:1:1: expected a number, found \"infinite\"");
  EXPECT_EQ(
      error_of(".", expect_number), "t:1:1: expected a number, found \".\"");
}

TEST(Scanner, AnExponentNeedsDigits) {
  Scanner scanner("2exp", "t");
  EXPECT_EQ(scanner.expect_int(), 2);
  EXPECT_EQ(scanner.expect_word(), "exp");
}

TEST(Scanner, StringsReadWhatQuoteWrites) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (size_t length = random() % 20; length > 0; --length) {
      text += static_cast<char>(random() % 256);
    }
    EXPECT_EQ(Scanner(quote(text), "t").expect_string(), text);
  }
}

TEST(Scanner, BrokenStrings) {
  const auto expect_string = [](Scanner& s) { s.expect_string(); };
  EXPECT_EQ(
      error_of(" \"abc\n\"", expect_string),
      "t:1:2: string without its closing quote");
  EXPECT_EQ(
      error_of("\"\\", expect_string),
      "t:1:2: unknown escape in a string (known: \\\" \\\\ \\n \\t \\xNN)");
  EXPECT_EQ(
      error_of("\"ab\\x4", expect_string),
      "t:1:4: unknown escape in a string (known: \\\" \\\\ \\n \\t \\xNN)");
  EXPECT_EQ(
      error_of("\"ab\\xg0\"", expect_string),
      "t:1:4: not hexadecimal digits: \"g0\"");
  EXPECT_EQ(
      error_of("abc", expect_string),
      "t:1:1: expected a quoted string, found \"abc\"");
}

TEST(Scanner, TakeLineStopsAtTheEndOrAComment) {
  Scanner scanner("  a b \"// no\\\" comment\" // yes\nnext\n\nlast", "t");
  EXPECT_EQ(scanner.take_line(), "a b \"// no\\\" comment\"");
  scanner.expect("next");
  EXPECT_EQ(scanner.take_line(), "");
  scanner.expect("last");
  EXPECT_EQ(scanner.take_line(), "");
  EXPECT_TRUE(scanner.at_end());
}

TEST(Scanner, MessagesSayWhereAndWhatWasFound) {
  EXPECT_EQ(
      error_of(
          "a\n  b",
          [](Scanner& s) {
            s.expect("a");
            s.expect("=");
          }),
      "t:2:3: expected '=', found \"b\"");
  EXPECT_EQ(
      error_of(
          "a  ",
          [](Scanner& s) {
            s.expect("a");
            s.expect_word();
          }),
      "t:1:4: expected a word, found the end of the text");
  EXPECT_EQ(
      error_of(
          "a\n bc",
          [](Scanner& s) {
            s.expect("a");
            const size_t start = s.mark();
            s.expect_word();
            s.fail_at(start, "bad word");
          }),
      "t:2:2: bad word");
}

}  // namespace
}  // namespace weft
