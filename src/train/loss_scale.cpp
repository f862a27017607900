// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scale.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <cmath>

namespace weft {
namespace {

double in_32_bits(double value) { return static_cast<float>(value); }

}  // namespace

LossScale::LossScale(const LossScaleOptions& options)
    : options_(options), scale_(in_32_bits(options.initial)) {
  WEFT_CHECK_USER(
      scale_ > 0 && std::isfinite(scale_),
      "the loss scale must be a positive number, not ",
      options.initial);
  WEFT_CHECK_USER(
      options.growth_factor > 1,
      "the growth factor of the loss scale must be over 1, not ",
      options.growth_factor);
  WEFT_CHECK_USER(
      options.backoff_factor > 0 && options.backoff_factor < 1,
      "the backoff factor of the loss scale must be between 0 and 1, not ",
      options.backoff_factor);
  WEFT_CHECK_USER(
      options.growth_interval > 0,
      "the growth interval of the loss scale must be at least 1 step, not ",
      options.growth_interval);
}

void LossScale::update(bool is_finite) {
  if (!is_finite) {
    scale_ = in_32_bits(scale_ * options_.backoff_factor);
    good_steps_ = 0;
    return;
  }
  if (++good_steps_ < options_.growth_interval) {
    return;
  }
  good_steps_ = 0;
  const double grown = in_32_bits(scale_ * options_.growth_factor);
  if (std::isfinite(grown)) {
    scale_ = grown;
  }
}

std::string LossScale::print_state() const {
  return cat("scale=", print_double(scale_), " good_steps=", good_steps_);
}

void LossScale::restore(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  scanner.expect("scale");
  scanner.expect("=");
  const double scale =
      expect_number(scanner, "a loss scale", NumberRange::Positive);
  scanner.expect("good_steps");
  scanner.expect("=");
  good_steps_ = expect_integer(scanner, "good_steps", {});
  scale_ = scale;
}

}  // namespace weft
