// SPDX-License-Identifier: Apache-2.0
// What becomes of measured numbers.
#pragma once

#include <vector>

namespace weft {

// Of an even number of values, halfway between the two in the middle. There
// must be one.
double median(std::vector<double> values);

// So much in so many seconds; these may be less than a clock sees, or 0.
double per_second(double amount, double seconds);

// To three figures: more than a measurement holds.
double three_figures(double value);

}  // namespace weft
