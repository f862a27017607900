// SPDX-License-Identifier: Apache-2.0
// How the learning rate goes over the steps, as data that prints and parses:
//   constant
//   linear warmup=100 steps=1000
//   cosine warmup=100 steps=1000 floor=0.1
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

enum class Curve { Constant, Linear, Cosine };

struct RateSchedule {
  Curve curve = Curve::Constant;
  // Steps that lead from 0 up to 1: step 0 has the factor 0, step `warmup` 1.
  int64_t warmup = 0;
  // All steps, warm-up included; from there on the factor is `floor`. Has no
  // meaning for a constant one.
  int64_t steps = 0;
  double floor = 0;

  bool operator==(const RateSchedule&) const = default;
};

// By which the learning rate is multiplied in `step`, the first of which is 0.
// After the warm-up: 1; or in a straight line from 1 to the floor; or
// floor + (1 - floor) * (1 + cos(pi * t)) / 2, where t goes from 0 to 1.
double factor(const RateSchedule& schedule, int64_t step);

std::string print(const RateSchedule& schedule);

// Throws UserError naming `source` and the place for what is not a schedule, or
// makes none: a curve without steps, a warm-up that is longer than they are, a
// floor outside [0, 1].
RateSchedule parse_rate_schedule(
    std::string_view text, const std::string& source);

}  // namespace weft
