// SPDX-License-Identifier: Apache-2.0
#include "search/choice_problem.h"

#include <gtest/gtest.h>
#include <random>

namespace weft {
namespace {

// Of all combinations that hold at most so many bytes.
double least_seconds(const ChoiceProblem& problem, double most_bytes) {
  std::vector<size_t> options(problem.choices.size(), 0);
  double least = kImpossible;
  while (true) {
    const Chosen now = cost_of(problem, options);
    if (now.bytes <= most_bytes) {
      least = std::min(least, now.seconds);
    }
    size_t i = 0;
    while (i < options.size() &&
           ++options[i] == problem.choices[i].seconds.size()) {
      options[i++] = 0;
    }
    if (i == options.size()) {
      return least;
    }
  }
}

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  size_t below(size_t end) {
    return std::uniform_int_distribution<size_t>(0, end - 1)(random_);
  }
  double seconds() { return 1e-6 * static_cast<double>(below(1000)); }

 private:
  std::mt19937 random_;
};

ChoiceProblem random_problem(Dice& dice) {
  ChoiceProblem problem;
  for (size_t i = 0; i < 7; ++i) {
    ChoiceProblem::Choice& choice = problem.choices.emplace_back();
    const size_t options = 1 + dice.below(4);
    for (size_t k = 0; k < options; ++k) {
      choice.seconds.push_back(dice.seconds());
      choice.bytes.push_back(static_cast<double>(dice.below(100)));
    }
  }
  for (size_t m = 0; m < 9; ++m) {
    ChoiceProblem::Meeting& meeting = problem.meetings.emplace_back();
    meeting.at = dice.below(problem.choices.size());
    const size_t needs = 1 + dice.below(4);
    for (size_t k = 0; k < problem.choices[meeting.at].seconds.size(); ++k) {
      std::vector<double>& row = meeting.seconds.emplace_back();
      for (size_t need = 0; need < needs; ++need) {
        const size_t kind = dice.below(6);
        row.push_back(kind == 0 ? kImpossible : kind == 1 ? 0 : dice.seconds());
      }
    }
    const size_t parties = 1 + dice.below(3);
    for (size_t p = 0; p < parties; ++p) {
      ChoiceProblem::Party party;
      party.choice = (meeting.at + 1 + dice.below(problem.choices.size() - 1)) %
                     problem.choices.size();
      for (size_t k = 0; k < problem.choices[party.choice].seconds.size();
           ++k) {
        party.needs.push_back(dice.below(needs));
      }
      meeting.parties.push_back(std::move(party));
    }
  }
  return problem;
}

TEST(ChoiceProblem, IsSolvedAsByTryingAll) {
  Dice dice(7);
  int possible = 0;
  int bound = 0;
  for (int i = 0; i < 60; ++i) {
    const ChoiceProblem problem = random_problem(dice);
    const double free = least_seconds(problem, kNoBound);
    for (const double budget : {kNoBound, 250.0}) {
      const double least = least_seconds(problem, budget);
      const auto chosen = choose(problem, budget);
      ASSERT_EQ(chosen.has_value(), least != kImpossible) << i;
      if (!chosen) {
        continue;
      }
      ++possible;
      bound += least > free ? 1 : 0;
      EXPECT_NEAR(chosen->seconds, least, 1e-9) << i;
      EXPECT_LE(chosen->bytes, budget) << i;
      EXPECT_TRUE(chosen->is_proved);
    }
  }
  // There were cases of all kinds.
  EXPECT_GE(possible, 30);
  EXPECT_GE(bound, 5);
}

TEST(ChoiceProblem, WhatSeveralNeedIsPaidOnce) {
  // One that is split, and two readers that need it whole or take long.
  ChoiceProblem problem;
  problem.choices = {
      {.seconds = {0}, .bytes = {0}},
      {.seconds = {3, 0}, .bytes = {0, 0}},
      {.seconds = {3, 0}, .bytes = {0, 0}}};
  problem.meetings = {
      {.at = 0,
       .seconds = {{0, 4}},
       .parties = {
           {.choice = 1, .needs = {0, 1}}, {.choice = 2, .needs = {0, 1}}}}};
  const auto chosen = choose(problem);
  ASSERT_TRUE(chosen);
  EXPECT_DOUBLE_EQ(chosen->seconds, 4);
  EXPECT_EQ(chosen->options, (std::vector<size_t>{0, 1, 1}));
}

}  // namespace
}  // namespace weft
