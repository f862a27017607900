// SPDX-License-Identifier: Apache-2.0
// What the number of a flag may be. All of them are read as base/number.h reads
// them, so that none is cut off, wrapped round or read as base 8.
#pragma once

#include "base/number.h"

#include <CLI/CLI.hpp>

namespace weft {

// For CLI::Option::transform: "--steps: must be a whole number, 1 or more,
// found: 0.5".
CLI::Validator whole_number(const IntegerRange& range);
CLI::Validator any_number(NumberRange range);

// Rows of a batch.
inline constexpr IntegerRange kBatchRows = {1, 1'000'000'000};
inline constexpr IntegerRange kSteps = {1, 1'000'000'000'000};
inline constexpr IntegerRange kMemoryBytes = {1, int64_t{1} << 60};
// Inside one operator: each would be started.
inline constexpr IntegerRange kThreads = {1, 1024};

}  // namespace weft
