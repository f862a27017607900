// SPDX-License-Identifier: Apache-2.0
#include "search/ilp.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <optional>
#include <random>

namespace weft {
namespace {

// Over all values of integer variables with bounds 0 and 1.
std::optional<double> brute_force(const Ilp& ilp) {
  std::optional<double> best;
  for (uint32_t bits = 0; bits < 1U << ilp.variables.size(); ++bits) {
    const auto value = [&](size_t i) {
      return static_cast<double>(bits >> i & 1U);
    };
    bool fits = true;
    for (const Ilp::Row& row : ilp.rows) {
      double sum = 0;
      for (const Ilp::Term& term : row.terms) {
        sum += term.factor * value(static_cast<size_t>(term.variable));
      }
      fits = fits && sum >= row.lower && sum <= row.upper;
    }
    double cost = 0;
    for (size_t i = 0; i < ilp.variables.size(); ++i) {
      cost += ilp.variables[i].cost * value(i);
    }
    if (fits && (!best || cost < *best)) {
      best = cost;
    }
  }
  return best;
}

// Costs of microseconds, rows of gigabytes.
Ilp random_ilp(std::mt19937& random) {
  Ilp ilp;
  const size_t count = 2 + random() % 9;
  for (size_t i = 0; i < count; ++i) {
    ilp.add({.cost = 1e-6 * (static_cast<double>(random() % 40) - 15)});
  }
  const size_t rows = 1 + random() % 5;
  for (size_t r = 0; r < rows; ++r) {
    Ilp::Row row;
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      if (random() % 2 == 0) {
        const double factor = 1e8 * (static_cast<double>(random() % 30) - 9);
        row.terms.push_back({static_cast<int32_t>(i), factor});
        sum += factor;
      }
    }
    (random() % 3 == 0 ? row.lower : row.upper) = sum / 2;
    ilp.rows.push_back(row);
  }
  return ilp;
}

TEST(Ilp, FindsWhatBruteForceFinds) {
  std::mt19937 random(5);
  int feasible = 0;
  int relaxed = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const Ilp ilp = random_ilp(random);
    const std::optional<double> expected = brute_force(ilp);
    for (const bool relax_first : {false, true}) {
      const IlpResult found = solve(ilp, {.relax_first = relax_first});
      ASSERT_EQ(
          found.status, expected ? IlpStatus::Optimal : IlpStatus::Infeasible)
          << trial;
      if (expected) {
        EXPECT_NEAR(found.objective, *expected, 1e-15) << trial;
        relaxed += found.is_relaxed ? 1 : 0;
      }
    }
    feasible += expected ? 1 : 0;
  }
  // Both answers were seen, and both ways to come by one.
  EXPECT_GT(feasible, 50);
  EXPECT_LT(feasible, 200);
  EXPECT_GT(relaxed, 10);
  EXPECT_LT(relaxed, feasible);
}

TEST(Ilp, KnowsFractionsFromWholeNumbers) {
  // At most one and a half of two.
  Ilp ilp;
  ilp.add({.cost = -1});
  ilp.add({.cost = -1, .is_integer = false});
  ilp.rows.push_back({.upper = 1.5, .terms = {{0, 1}, {1, 1}}});
  const IlpResult mixed = solve(ilp);
  ASSERT_EQ(mixed.status, IlpStatus::Optimal);
  EXPECT_EQ(mixed.values[0], 1);
  EXPECT_NEAR(mixed.values[1], 0.5, 1e-9);
  ilp.variables[1].is_integer = true;
  const IlpResult whole = solve(ilp, {.relax_first = true});
  EXPECT_EQ(whole.objective, -1);
  EXPECT_FALSE(whole.is_relaxed);
}

TEST(Ilp, TakesBoundsBeyondOne) {
  Ilp ilp;
  ilp.add({.cost = 1, .lower = -5, .upper = kNoBound});
  ilp.add({.cost = 3, .lower = 2, .upper = 9});
  ilp.rows.push_back({.lower = 0.5, .terms = {{0, 1}, {1, 1}}});
  const IlpResult found = solve(ilp);
  EXPECT_EQ(found.values, (std::vector<double>{-1, 2}));
  ilp.rows.front().lower = -kNoBound;
  EXPECT_EQ(solve(ilp).values, (std::vector<double>{-5, 2}));
  ilp.variables.front().lower = -kNoBound;
  EXPECT_THROW(solve(ilp), InternalError);
}

TEST(Ilp, MayBeEmpty) {
  EXPECT_EQ(solve({}).status, IlpStatus::Optimal);
  Ilp ilp;
  ilp.rows.push_back({.lower = -1, .upper = 1});
  EXPECT_EQ(solve(ilp).status, IlpStatus::Optimal);
  ilp.rows.push_back({.lower = 1});
  EXPECT_EQ(solve(ilp).status, IlpStatus::Infeasible);
}

TEST(Ilp, StopsWhenTimeIsUp) {
  // Half of 60 unequal weights, to the last digit: far too many to try.
  std::mt19937 random(3);
  Ilp ilp;
  Ilp::Row row;
  double sum = 0;
  for (int32_t i = 0; i < 60; ++i) {
    const auto weight = static_cast<double>(random() % 10'000'000);
    ilp.add({.cost = -weight - static_cast<double>(random() % 100)});
    row.terms.push_back({i, weight});
    sum += weight;
  }
  for (int32_t r = 0; r < 5; ++r) {
    std::shuffle(row.terms.begin(), row.terms.end(), random);
    for (int32_t i = 0; i < 60; ++i) {
      row.terms[static_cast<size_t>(i)].variable = i;
    }
    row.upper = sum / 2;
    ilp.rows.push_back(row);
  }
  const IlpResult some = solve(ilp, {.time_limit_seconds = 0.2});
  EXPECT_EQ(some.status, IlpStatus::Feasible);
  EXPECT_LT(some.objective, 0);
  EXPECT_EQ(solve(ilp, {.time_limit_seconds = 0}).status, IlpStatus::OutOfTime);
}

}  // namespace
}  // namespace weft
