// SPDX-License-Identifier: Apache-2.0
// A linear programme some of whose variables are whole numbers, and its solver:
// the door to HiGHS.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace weft {

inline constexpr double kNoBound = std::numeric_limits<double>::infinity();

// What is asked for: values of the variables, within their bounds, with the
// least sum of costs, such that the sum of terms of every row is within the
// row's bounds. A bound that is not there is kNoBound or its negative.
struct Ilp {
  struct Variable {
    double cost = 0;
    double lower = 0;
    double upper = 1;
    bool is_integer = true;
  };
  struct Term {
    // Its place among the variables; no two terms of a row have the same.
    int32_t variable = 0;
    double factor = 1;
  };
  struct Row {
    double lower = -kNoBound;
    double upper = kNoBound;
    std::vector<Term> terms = {};
  };
  std::vector<Variable> variables;
  std::vector<Row> rows;

  // The place of what was added.
  int32_t add(const Variable& variable);
};

struct IlpOptions {
  double time_limit_seconds = 60;
  // First without asking for whole numbers. Where these come out all the same,
  // that is the answer, many times sooner; where they rarely do, it is time
  // lost.
  bool relax_first = false;
};

enum class IlpStatus : uint8_t {
  // No values cost less.
  Optimal,
  // Time ran out; these values keep to all bounds.
  Feasible,
  // No values keep to all bounds.
  Infeasible,
  // Time ran out before any were found.
  OutOfTime,
};

struct IlpResult {
  IlpStatus status = IlpStatus::Infeasible;
  // By variable, for Optimal and Feasible; integers are exact.
  std::vector<double> values = {};
  double objective = 0;
  // Whole numbers came without being asked for (relax_first).
  bool is_relaxed = false;

  bool has_values() const {
    return status == IlpStatus::Optimal || status == IlpStatus::Feasible;
  }
};

// The same answer each time, unless time runs out. Costs count down to a
// billionth of the largest, and a row's bounds hold to a billionth of its
// largest factor, so a caller to whom the last byte matters checks it. Throws
// InternalError where a sum of costs has no least value. Prints nothing; may be
// called by several threads at once.
IlpResult solve(const Ilp& ilp, const IlpOptions& options = {});

}  // namespace weft
