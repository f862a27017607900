// SPDX-License-Identifier: Apache-2.0
#include "search/ilp.h"

#include "base/error.h"
#include "search/highs_api.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// HiGHS takes a reduced cost, or what a row lacks, for nothing below about
// 1e-6. So that this is little, the largest cost and the largest factor of a
// row are brought to this size.
constexpr double kLargest = 1024;
// How far from a whole number the solver's answer may be.
constexpr double kRounding = 1e-5;

// A power of two, so that scaling rounds nothing.
double scale_to_largest(double largest) {
  return largest == 0 ? 1
                      : std::exp2(std::floor(std::log2(kLargest / largest)));
}

// The programme as HiGHS takes it.
struct Arrays {
  std::vector<double> cost, lower, upper, row_lower, row_upper, factor;
  std::vector<int> row_start, variable, integrality;
};

Arrays arrays_of(const Ilp& ilp) {
  Arrays out;
  double largest = 0;
  for (const Ilp::Variable& variable : ilp.variables) {
    largest = std::max(largest, std::abs(variable.cost));
  }
  const double scale = scale_to_largest(largest);
  for (const Ilp::Variable& variable : ilp.variables) {
    out.cost.push_back(variable.cost * scale);
    out.lower.push_back(variable.lower);
    out.upper.push_back(variable.upper);
    out.integrality.push_back(
        variable.is_integer ? highs::kInteger : highs::kContinuous);
  }
  for (const Ilp::Row& row : ilp.rows) {
    double most = 0;
    for (const Ilp::Term& term : row.terms) {
      most = std::max(most, std::abs(term.factor));
    }
    const double row_scale = scale_to_largest(most);
    out.row_lower.push_back(row.lower * row_scale);
    out.row_upper.push_back(row.upper * row_scale);
    out.row_start.push_back(static_cast<int>(out.variable.size()));
    for (const Ilp::Term& term : row.terms) {
      out.variable.push_back(term.variable);
      out.factor.push_back(term.factor * row_scale);
    }
  }
  return out;
}

// For one run: its clock counts from its making.
class Solver {
 public:
  explicit Solver(const Arrays& arrays)
      : arrays_(arrays), highs_(Highs_create(), Highs_destroy) {
    WEFT_CHECK(
        Highs_getSizeofHighsInt(highs_.get()) == sizeof(int),
        "the library HiGHS is built for integers of another size");
    check(Highs_setBoolOptionValue(highs_.get(), "output_flag", 0));
    check(Highs_setIntOptionValue(highs_.get(), "threads", 1));
    check(Highs_setStringOptionValue(highs_.get(), "parallel", "off"));
    check(Highs_setIntOptionValue(highs_.get(), "random_seed", 1));
    check(Highs_setDoubleOptionValue(highs_.get(), "mip_rel_gap", 0));
    check(Highs_setDoubleOptionValue(highs_.get(), "mip_abs_gap", 0));
  }

  // What HiGHS says of it, solved with whole numbers or without.
  int run(bool has_integers, double seconds) {
    const std::vector<int> continuous(
        arrays_.integrality.size(), highs::kContinuous);
    check(Highs_passMip(
        highs_.get(),
        static_cast<int>(arrays_.cost.size()),
        static_cast<int>(arrays_.row_start.size()),
        static_cast<int>(arrays_.variable.size()),
        highs::kByRows,
        highs::kMinimize,
        0,
        arrays_.cost.data(),
        arrays_.lower.data(),
        arrays_.upper.data(),
        arrays_.row_lower.data(),
        arrays_.row_upper.data(),
        arrays_.row_start.data(),
        arrays_.variable.data(),
        arrays_.factor.data(),
        has_integers ? arrays_.integrality.data() : continuous.data()));
    check(Highs_setDoubleOptionValue(
        highs_.get(), "time_limit", std::max(seconds, 0.0)));
    check(Highs_run(highs_.get()));
    return Highs_getModelStatus(highs_.get());
  }

  bool has_values() const {
    int status = 0;
    check(
        Highs_getIntInfoValue(highs_.get(), "primal_solution_status", &status));
    return status == highs::kFeasible;
  }

  std::vector<double> values() const {
    std::vector<double> out(arrays_.cost.size());
    check(
        Highs_getSolution(highs_.get(), out.data(), nullptr, nullptr, nullptr));
    return out;
  }

 private:
  static void check(int status) {
    WEFT_CHECK(status != highs::kError, "HiGHS refuses what it is given");
  }

  const Arrays& arrays_;
  std::unique_ptr<void, void (*)(void*)> highs_;
};

bool is_whole(const Ilp& ilp, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (ilp.variables[i].is_integer &&
        std::abs(values[i] - std::round(values[i])) > kRounding) {
      return false;
    }
  }
  return true;
}

IlpResult with_values(
    const Ilp& ilp, IlpStatus status, std::vector<double> values) {
  IlpResult out = {.status = status, .values = std::move(values)};
  for (size_t i = 0; i < out.values.size(); ++i) {
    if (ilp.variables[i].is_integer) {
      out.values[i] = std::round(out.values[i]);
    }
    out.objective += ilp.variables[i].cost * out.values[i];
  }
  return out;
}

}  // namespace

int32_t Ilp::add(const Variable& variable) {
  variables.push_back(variable);
  return static_cast<int32_t>(variables.size()) - 1;
}

IlpResult solve(const Ilp& ilp, const IlpOptions& options) {
  const Clock::time_point begin = Clock::now();
  const bool has_integers = std::any_of(
      ilp.variables.begin(),
      ilp.variables.end(),
      [](const Ilp::Variable& variable) { return variable.is_integer; });
  // HiGHS does not look at the rows of a programme without variables.
  for (const Ilp::Row& row : ilp.rows) {
    if (row.terms.empty() && (row.lower > 0 || row.upper < 0)) {
      return {.status = IlpStatus::Infeasible};
    }
  }
  const Arrays arrays = arrays_of(ilp);
  if (options.relax_first && has_integers) {
    Solver solver(arrays);
    const int status = solver.run(false, options.time_limit_seconds);
    if (status == highs::kInfeasible) {
      return {.status = IlpStatus::Infeasible};
    }
    if (status == highs::kOptimal) {
      std::vector<double> values = solver.values();
      if (is_whole(ilp, values)) {
        IlpResult out = with_values(ilp, IlpStatus::Optimal, std::move(values));
        out.is_relaxed = true;
        return out;
      }
    }
  }
  const std::chrono::duration<double> used = Clock::now() - begin;
  Solver solver(arrays);
  const int status =
      solver.run(has_integers, options.time_limit_seconds - used.count());
  switch (status) {
    case highs::kOptimal:
    case highs::kModelEmpty:
      return with_values(ilp, IlpStatus::Optimal, solver.values());
    case highs::kInfeasible:
      return {.status = IlpStatus::Infeasible};
    case highs::kTimeLimit:
      return solver.has_values()
                 ? with_values(ilp, IlpStatus::Feasible, solver.values())
                 : IlpResult{.status = IlpStatus::OutOfTime};
    default:
      WEFT_CHECK(
          status != highs::kUnbounded, "the sum of costs has no least value");
      WEFT_CHECK(false, "HiGHS ends with status ", status);
  }
}

}  // namespace weft
