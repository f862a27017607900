// SPDX-License-Identifier: Apache-2.0
#include "cli/figures.h"

#include "base/error.h"
#include "base/number.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace weft {

double median(std::vector<double> values) {
  WEFT_CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const size_t upper = values.size() / 2;
  const size_t lower = (values.size() - 1) / 2;
  return (values[lower] + values[upper]) / 2;
}

double per_second(double amount, double seconds) {
  constexpr double kLeastSeconds = 1e-12;
  return amount / std::max(seconds, kLeastSeconds);
}

double three_figures(double value) {
  std::array<char, 32> text = {};
  const auto [end, error] = std::to_chars(
      text.data(),
      text.data() + text.size(),
      value,
      std::chars_format::scientific,
      2);
  WEFT_CHECK(error == std::errc{});
  return read_number({text.data(), end}).value();
}

}  // namespace weft
