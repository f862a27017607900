// SPDX-License-Identifier: Apache-2.0
// Numbers out of text, and products of them: the one place where characters
// become a number. What cannot be held exactly, or at all, is no number here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

class Scanner;

// Decimal digits with at most a sign before them, all of the text and within 64
// bits; none else.
std::optional<int64_t> read_integer(std::string_view text);
// Decimal digits with at most a sign, a fraction and an exponent, all of the
// text; none else. Never infinite and never NaN: "1e999" and "inf" are none.
std::optional<double> read_number(std::string_view text);
// All of the text, as 64 bits in digits of base 16 without a sign.
std::optional<uint64_t> read_hexadecimal(std::string_view text);

// The longest such number that the text begins with, which is cut off it.
// Nothing is cut off where there is none.
std::optional<int64_t> take_integer(std::string_view& text);
std::optional<double> take_number(std::string_view& text);

// How long the number is that the text begins with, in range or not; 0: none.
size_t number_length(std::string_view text);

// Both ends belong to it.
struct IntegerRange {
  int64_t least = 0;
  int64_t most = std::numeric_limits<int64_t>::max();
};

// "from 1 to 1,000,000", "1 or more", "a whole number".
std::string print(const IntegerRange& range);

// The whole text. Throws UserError: "WHAT must be a whole number from 1 to 8,
// found "0.5"".
int64_t expect_integer(
    std::string_view text, std::string_view what, const IntegerRange& range);
// The next number of a text. Throws UserError that begins with its place.
int64_t expect_integer(
    Scanner& scanner, std::string_view what, const IntegerRange& range);

// Which numbers with a fraction will do; all of them are finite.
enum class NumberRange { Any, NotNegative, Positive };

// "a number above 0"
std::string_view print(NumberRange range);
bool is_in(double value, NumberRange range);

// As expect_integer.
double expect_number(
    std::string_view text, std::string_view what, NumberRange range);
double expect_number(
    Scanner& scanner, std::string_view what, NumberRange range);

// None when 64 bits do not hold it.
std::optional<int64_t> checked_product(std::span<const int64_t> factors);
std::optional<int64_t> checked_product(std::initializer_list<int64_t> factors);

// None when 64 bits do not hold the whole part of it.
std::optional<int64_t> to_integer(double value);

}  // namespace weft
