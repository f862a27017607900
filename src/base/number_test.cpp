// SPDX-License-Identifier: Apache-2.0
#include "base/number.h"

#include "base/error.h"
#include "base/text.h"

#include <gtest/gtest.h>
#include <limits>

namespace weft {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

template <typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Number, IntegersAreReadWholeOrNotAtAll) {
  EXPECT_EQ(read_integer("0"), 0);
  EXPECT_EQ(read_integer("-7"), -7);
  EXPECT_EQ(read_integer("+7"), 7);
  EXPECT_EQ(read_integer("010"), 10);
  EXPECT_EQ(read_integer("9223372036854775807"), kMost);
  EXPECT_EQ(read_integer("-9223372036854775808"), kLeast);
  for (const char* text :
       {"",
        "-",
        "+",
        "+-1",
        " 1",
        "1 ",
        "1x",
        "0x10",
        "1.0",
        "1e9",
        "inf",
        "9223372036854775808",
        "-9223372036854775809"}) {
    EXPECT_EQ(read_integer(text), std::nullopt) << text;
  }
}

TEST(Number, NumbersAreFinite) {
  EXPECT_EQ(read_number("1"), 1);
  EXPECT_EQ(read_number("-.5"), -0.5);
  EXPECT_EQ(read_number("+2.e+3"), 2000);
  EXPECT_EQ(read_number("1e30"), 1e30);
  for (const char* text :
       {"", ".", "-", "e5", "inf", "-inf", "nan", "1e999", "1x", "0x1p3"}) {
    EXPECT_EQ(read_number(text), std::nullopt) << text;
  }
}

TEST(Number, TakingCutsOffWhatWasRead) {
  std::string_view text = "12.5x";
  EXPECT_EQ(take_integer(text), 12);
  EXPECT_EQ(text, ".5x");
  EXPECT_EQ(take_integer(text), std::nullopt);
  EXPECT_EQ(take_number(text), 0.5);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(take_number(text), std::nullopt);
  EXPECT_EQ(text, "x");
}

TEST(Number, Hexadecimal) {
  EXPECT_EQ(read_hexadecimal("fF"), 255);
  EXPECT_EQ(read_hexadecimal("ffffffffffffffff"), ~uint64_t{0});
  for (const char* text : {"", "-1", "+1", "0x1", "g", "10000000000000000"}) {
    EXPECT_EQ(read_hexadecimal(text), std::nullopt) << text;
  }
}

TEST(Number, MessagesSayWhatMayBe) {
  const auto whole = [](std::string_view text, const IntegerRange& range) {
    return message_of([&] { expect_integer(text, "t:1: layers", range); });
  };
  EXPECT_EQ(whole("8", {1, 8}), "no error");
  EXPECT_EQ(
      whole("9", {1, 8}),
      "t:1: layers must be a whole number, from 1 to 8, found \"9\"");
  EXPECT_EQ(
      whole("-1", {}),
      "t:1: layers must be a whole number, 0 or more, found \"-1\"");
  EXPECT_EQ(
      whole(std::string(1000, '9'), {kLeast, kMost}),
      cat("t:1: layers must be a whole number, found \"",
          std::string(40, '9'),
          "\"..."));
  const auto scanned = [](std::string_view text) {
    return message_of([&] {
      Scanner scanner(text, "t");
      expect_number(scanner, "a rate", NumberRange::Positive);
    });
  };
  EXPECT_EQ(scanned("2"), "no error");
  EXPECT_EQ(
      scanned("\n inf"), "t:2:2: a rate must be a number above 0, found inf");
  EXPECT_EQ(
      scanned("-1"), "t:1:1: a rate must be a number above 0, found -1.0");
}

TEST(Number, ProductsAndRoundingsAreCheckedForOverflow) {
  EXPECT_EQ(checked_product({}), 1);
  EXPECT_EQ(checked_product({3, -4}), -12);
  EXPECT_EQ(checked_product({int64_t{1} << 62, 2}), std::nullopt);
  EXPECT_EQ(checked_product({kMost, 2, 0}), std::nullopt);
  EXPECT_EQ(to_integer(-0x1p63), kLeast);
  EXPECT_EQ(to_integer(2.9), 2);
  for (const double value :
       {0x1p63,
        -1e19,
        std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(to_integer(value), std::nullopt) << value;
  }
}

}  // namespace
}  // namespace weft
