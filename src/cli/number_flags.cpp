// SPDX-License-Identifier: Apache-2.0
#include "cli/number_flags.h"

#include "base/text.h"

#include <optional>

namespace weft {
namespace {

std::string must_be(std::string_view range, const std::string& found) {
  constexpr size_t kShown = 40;
  return cat("must be ", range, ", found: ", found.substr(0, kShown));
}

}  // namespace

CLI::Validator whole_number(const IntegerRange& range) {
  return CLI::Validator(
      [range](std::string& text) {
        const std::optional<int64_t> value = read_integer(text);
        if (!value || *value < range.least || *value > range.most) {
          return must_be(cat("a whole number, ", print(range)), text);
        }
        // CLI11 would read 010 as 8.
        text = cat(*value);
        return std::string();
      },
      range.least > 0 ? "POSITIVE" : "NONNEGATIVE");
}

CLI::Validator any_number(NumberRange range) {
  return CLI::Validator(
      [range](std::string& text) {
        const std::optional<double> value = read_number(text);
        return value && is_in(*value, range) ? std::string()
                                             : must_be(print(range), text);
      },
      range == NumberRange::Positive ? "POSITIVE" : "NONNEGATIVE");
}

}  // namespace weft
