// SPDX-License-Identifier: Apache-2.0
#include "train/rate_schedule.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

#include <cmath>
#include <numbers>

namespace weft {
namespace {

std::string_view name(Curve curve) {
  switch (curve) {
    case Curve::Constant:
      return "constant";
    case Curve::Linear:
      return "linear";
    case Curve::Cosine:
      return "cosine";
  }
  WEFT_CHECK(false, "an unknown curve");
  return "";
}

Curve parse_curve(Scanner& scanner) {
  for (const Curve curve : {Curve::Constant, Curve::Linear, Curve::Cosine}) {
    if (scanner.take(name(curve))) {
      return curve;
    }
  }
  scanner.fail_expected("constant, linear or cosine");
}

int64_t expect_count(Scanner& scanner) {
  return expect_integer(scanner, "a number of steps", {});
}

double expect_floor(Scanner& scanner) {
  const size_t mark = scanner.mark();
  const double floor =
      expect_number(scanner, "a floor", NumberRange::NotNegative);
  if (floor > 1) {
    scanner.fail_at(mark, "a floor is between 0 and 1");
  }
  return floor;
}

}  // namespace

double factor(const RateSchedule& schedule, int64_t step) {
  if (step < schedule.warmup) {
    return static_cast<double>(step) / static_cast<double>(schedule.warmup);
  }
  if (schedule.curve == Curve::Constant) {
    return 1;
  }
  if (step >= schedule.steps) {
    return schedule.floor;
  }
  const double part = static_cast<double>(step - schedule.warmup) /
                      static_cast<double>(schedule.steps - schedule.warmup);
  const double height = schedule.curve == Curve::Linear
                            ? 1 - part
                            : (1 + std::cos(std::numbers::pi * part)) / 2;
  return schedule.floor + (1 - schedule.floor) * height;
}

std::string print(const RateSchedule& schedule) {
  std::string text(name(schedule.curve));
  if (schedule.warmup != 0) {
    text += cat(" warmup=", schedule.warmup);
  }
  if (schedule.steps != 0) {
    text += cat(" steps=", schedule.steps);
  }
  if (schedule.floor != 0) {
    text += cat(" floor=", print_double(schedule.floor));
  }
  return text;
}

RateSchedule parse_rate_schedule(
    std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  RateSchedule schedule;
  const size_t begin = scanner.mark();
  schedule.curve = parse_curve(scanner);
  while (!scanner.at_end()) {
    if (scanner.take("warmup")) {
      scanner.expect("=");
      schedule.warmup = expect_count(scanner);
    } else if (scanner.take("steps")) {
      scanner.expect("=");
      schedule.steps = expect_count(scanner);
    } else if (scanner.take("floor")) {
      scanner.expect("=");
      schedule.floor = expect_floor(scanner);
    } else {
      scanner.fail_expected("warmup=, steps= or floor=");
    }
  }
  if (schedule.curve != Curve::Constant && schedule.steps == 0) {
    scanner.fail_at(
        begin, cat("a ", name(schedule.curve), " schedule needs steps=N"));
  }
  if (schedule.steps != 0 && schedule.warmup > schedule.steps) {
    scanner.fail_at(begin, "the warm-up is longer than all steps");
  }
  return schedule;
}

}  // namespace weft
