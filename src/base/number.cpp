// SPDX-License-Identifier: Apache-2.0
#include "base/number.h"

#include "base/error.h"
#include "base/text.h"

#include <charconv>
#include <cmath>
#include <system_error>

namespace weft {

namespace {

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_from(std::string_view text, size_t at) {
  while (at < text.size() && is_decimal_digit(text[at])) {
    ++at;
  }
  return at;
}

size_t sign_length(std::string_view text) {
  return !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
}

// std::from_chars knows '-' and no '+'.
std::string_view without_plus(std::string_view text) {
  return text.starts_with('+') ? text.substr(1) : text;
}

// All of a text that is known to have the form of such a number.
template <typename Number, typename... Base>
std::optional<Number> converted(std::string_view text, Base... base) {
  const std::string_view digits = without_plus(text);
  const char* const end = digits.data() + digits.size();
  Number value = 0;
  const auto [at, error] = std::from_chars(digits.data(), end, value, base...);
  return error == std::errc{} && at == end && !digits.empty()
             ? std::optional(value)
             : std::nullopt;
}

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  return cat(quote(text.substr(0, kShown)), text.size() > kShown ? "..." : "");
}

std::string must_be(
    std::string_view what, std::string_view range, std::string_view found) {
  return cat(what, " must be ", range, ", found ", found);
}

std::string whole_number(const IntegerRange& range) {
  const std::string bounds = print(range);
  return cat("a whole number", bounds.empty() ? "" : ", ", bounds);
}

}  // namespace

size_t number_length(std::string_view text) {
  const size_t sign = sign_length(text);
  const size_t whole = digits_from(text, sign);
  size_t end = whole;
  if (end < text.size() && text[end] == '.') {
    end = digits_from(text, end + 1);
    if (whole == sign && end == whole + 1) {
      return 0;
    }
  } else if (whole == sign) {
    return 0;
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const size_t exponent = end + 1 + sign_length(text.substr(end + 1));
    const size_t exponent_end = digits_from(text, exponent);
    if (exponent_end > exponent) {
      end = exponent_end;
    }
  }
  return end;
}

std::optional<int64_t> take_integer(std::string_view& text) {
  const size_t sign = sign_length(text);
  const size_t end = digits_from(text, sign);
  const auto value =
      end == sign ? std::nullopt : converted<int64_t>(text.substr(0, end));
  if (value) {
    text.remove_prefix(end);
  }
  return value;
}

std::optional<double> take_number(std::string_view& text) {
  const size_t end = number_length(text);
  const auto value =
      end == 0 ? std::nullopt : converted<double>(text.substr(0, end));
  if (value) {
    text.remove_prefix(end);
  }
  return value;
}

std::optional<int64_t> read_integer(std::string_view text) {
  const std::optional<int64_t> value = take_integer(text);
  return text.empty() ? value : std::nullopt;
}

std::optional<double> read_number(std::string_view text) {
  const std::optional<double> value = take_number(text);
  return text.empty() ? value : std::nullopt;
}

std::optional<uint64_t> read_hexadecimal(std::string_view text) {
  constexpr int kBase = 16;
  return sign_length(text) > 0 ? std::nullopt
                               : converted<uint64_t>(text, kBase);
}

std::string print(const IntegerRange& range) {
  constexpr IntegerRange kAny;
  if (range.most != kAny.most) {
    return cat(
        "from ", with_commas(range.least), " to ", with_commas(range.most));
  }
  return range.least == std::numeric_limits<int64_t>::min()
             ? ""
             : cat(with_commas(range.least), " or more");
}

int64_t expect_integer(
    std::string_view text, std::string_view what, const IntegerRange& range) {
  const std::optional<int64_t> value = read_integer(text);
  WEFT_CHECK_USER(
      value && *value >= range.least && *value <= range.most,
      must_be(what, whole_number(range), quoted(text)));
  return *value;
}

int64_t expect_integer(
    Scanner& scanner, std::string_view what, const IntegerRange& range) {
  const size_t mark = scanner.mark();
  const int64_t value = scanner.expect_int();
  if (value < range.least || value > range.most) {
    scanner.fail_at(mark, must_be(what, whole_number(range), cat(value)));
  }
  return value;
}

std::string_view print(NumberRange range) {
  switch (range) {
    case NumberRange::Any:
      return "a finite number";
    case NumberRange::NotNegative:
      return "0 or a number above it";
    case NumberRange::Positive:
      return "a number above 0";
  }
  WEFT_CHECK(false, "unknown range");
}

bool is_in(double value, NumberRange range) {
  return std::isfinite(value) &&
         (range == NumberRange::Any ||
          (range == NumberRange::Positive ? value > 0 : value >= 0));
}

double expect_number(
    std::string_view text, std::string_view what, NumberRange range) {
  const std::optional<double> value = read_number(text);
  WEFT_CHECK_USER(
      value && is_in(*value, range), must_be(what, print(range), quoted(text)));
  return *value;
}

double expect_number(
    Scanner& scanner, std::string_view what, NumberRange range) {
  const size_t mark = scanner.mark();
  bool is_integer = false;
  int64_t integer = 0;
  const double value = scanner.expect_number(&is_integer, &integer);
  if (!is_in(value, range)) {
    scanner.fail_at(mark, must_be(what, print(range), print_double(value)));
  }
  return value;
}

std::optional<int64_t> checked_product(std::span<const int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      return std::nullopt;
    }
  }
  return product;
}

std::optional<int64_t> checked_product(std::initializer_list<int64_t> factors) {
  return checked_product(std::span(factors.begin(), factors.size()));
}

std::optional<int64_t> to_integer(double value) {
  // The smallest double above all of them; the least is one itself.
  constexpr double kEnd = 0x1p63;
  return value >= -kEnd && value < kEnd
             ? std::optional(static_cast<int64_t>(value))
             : std::nullopt;
}

}  // namespace weft
