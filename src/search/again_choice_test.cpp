// SPDX-License-Identifier: Apache-2.0
#include "search/again_choice.h"

#include "search/rotor.h"

#include <gtest/gtest.h>
#include <random>

namespace weft {
namespace {

// Each unit two calls: what else it keeps, from what the unit before gives, and
// from that what it gives. Backward reads the units from the last on.
AgainStep chain(const std::vector<ChainUnit>& units) {
  AgainStep step;
  const auto count = static_cast<int32_t>(units.size());
  for (int32_t i = 0; i < count; ++i) {
    const ChainUnit& unit = units[static_cast<size_t>(i)];
    AgainStep::Call inside = {.seconds = unit.forward_seconds};
    if (i > 0) {
      inside.reads = {2 * i - 1};
    }
    step.calls.push_back(inside);
    step.calls.push_back({.seconds = 0, .reads = {2 * i}});
    const int32_t moment = count - 1 - i;
    step.storages.push_back(
        {unit.kept_bytes - unit.output_bytes, 2 * i, moment, moment});
    step.storages.push_back({unit.output_bytes, 2 * i + 1, moment, moment});
    step.call_bytes.insert(step.call_bytes.end(), 2, 0);
    step.moments.push_back({});
  }
  return step;
}

std::vector<ChainUnit> random_units(std::mt19937& random) {
  std::vector<ChainUnit> units(1 + random() % 6);
  for (ChainUnit& unit : units) {
    unit.output_bytes = 1 + static_cast<int64_t>(random() % 8);
    unit.kept_bytes = unit.output_bytes + static_cast<int64_t>(random() % 30);
    unit.forward_seconds = 1 + static_cast<double>(random() % 9);
  }
  return units;
}

// Calls of one or two storages, each read by later calls, by moments, by both
// or by none.
AgainStep random_step(std::mt19937& random) {
  const auto below = [&](size_t count) {
    return static_cast<int32_t>(random() % count);
  };
  AgainStep step;
  const int32_t calls = 2 + below(7);
  const int32_t moments = 1 + below(8);
  for (int32_t c = 0; c < calls; ++c) {
    AgainStep::Call call = {.seconds = 1e-5 * (1 + below(20))};
    for (int32_t s = 0; s < static_cast<int32_t>(step.storages.size()); ++s) {
      // Mostly of calls shortly before.
      if (below(static_cast<size_t>(
              2 + c - step.storages[static_cast<size_t>(s)].call)) == 0) {
        call.reads.push_back(s);
      }
    }
    step.calls.push_back(call);
    for (int32_t r = 0; r < 1 + below(2); ++r) {
      AgainStep::Storage storage = {
          .bytes = 1 + below(40), .call = c, .is_once = below(8) == 0};
      if (below(3) != 0) {
        // Mostly the other way round.
        const int32_t first = below(2) == 0
                                  ? below(static_cast<size_t>(moments))
                                  : (calls - 1 - c) * moments / calls;
        storage.first_read = first;
        storage.last_read = first + below(static_cast<size_t>(moments - first));
      }
      step.storages.push_back(storage);
    }
    step.call_bytes.push_back(below(20) - 5);
  }
  for (int32_t t = 0; t < moments; ++t) {
    const int64_t before = below(20) - 5;
    step.moments.push_back({before, before + below(10)});
  }
  return step;
}

// Over all sets of storages that are kept.
std::optional<double> brute_force(const AgainStep& step, int64_t budget) {
  std::vector<size_t> chosen;
  const std::vector<bool> choices = step.choices();
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i]) {
      chosen.push_back(i);
    }
  }
  std::optional<double> best;
  for (uint32_t bits = 0; bits < 1U << chosen.size(); ++bits) {
    std::vector<bool> keeps(step.storages.size(), false);
    for (size_t i = 0; i < chosen.size(); ++i) {
      keeps[chosen[i]] = (bits >> i & 1U) != 0;
    }
    const AgainChoice choice = play_again(step, keeps);
    if (choice.peak_bytes <= budget &&
        (!best || choice.extra_seconds < *best)) {
      best = choice.extra_seconds;
    }
  }
  return best;
}

// Budgets from nothing fits to all is kept.
void compare_with_brute_force(const AgainStep& step, int trial, int& found) {
  const int64_t all = play_again(step, step.choices()).peak_bytes;
  for (int64_t part = 4; part <= 10; ++part) {
    const int64_t budget = all * part / 10;
    const std::optional<double> expected = brute_force(step, budget);
    const std::optional<AgainChoice> choice = choose_again(step, budget);
    ASSERT_EQ(choice.has_value(), expected.has_value())
        << trial << " with " << budget;
    if (choice) {
      EXPECT_NEAR(choice->extra_seconds, *expected, 1e-12)
          << trial << " with " << budget;
      EXPECT_LE(choice->peak_bytes, budget) << trial << " with " << budget;
      found += *expected > 0 ? 1 : 0;
    }
  }
}

TEST(AgainChoice, FindsWhatBruteForceFindsForChains) {
  std::mt19937 random(11);
  int found = 0;
  for (int trial = 0; trial < 40; ++trial) {
    compare_with_brute_force(chain(random_units(random)), trial, found);
  }
  EXPECT_GT(found, 60);
}

TEST(AgainChoice, FindsWhatBruteForceFindsForGraphs) {
  std::mt19937 random(13);
  int found = 0;
  for (int trial = 0; trial < 80; ++trial) {
    compare_with_brute_force(random_step(random), trial, found);
  }
  EXPECT_GT(found, 60);
}

TEST(AgainChoice, IsNeverWorseThanRotor) {
  std::mt19937 random(17);
  int found = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const std::vector<ChainUnit> units = random_units(random);
    int64_t all = 0;
    for (const ChainUnit& unit : units) {
      all += unit.kept_bytes;
    }
    const int64_t budget = 1 + static_cast<int64_t>(random()) % all;
    const auto theirs = rotor(units, budget, budget);
    const auto ours = choose_again(chain(units), budget);
    if (theirs) {
      ASSERT_TRUE(ours.has_value()) << trial;
      EXPECT_LE(ours->extra_seconds, theirs->extra_seconds) << trial;
      EXPECT_LE(ours->peak_bytes, budget) << trial;
      found += theirs->extra_seconds > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(found, 20);
}

TEST(AgainChoice, PlaysWhatLoweringDoes) {
  // 0 -> 1 -> 2, and backward reads 2, then 0; 1 is only on the way.
  AgainStep step;
  step.calls = {{1, {}}, {2, {0}}, {4, {1}}};
  step.storages = {{100, 0, 1, 1}, {10, 1, -1, -1}, {1, 2, 0, 0}};
  step.moments = {{1000, 2000}, {3000, 4000}};
  step.call_bytes = {0, 0, 0};
  EXPECT_EQ(step.choices(), (std::vector<bool>{true, false, true}));
  const AgainChoice kept = play_again(step, {true, false, true});
  EXPECT_EQ(kept.again_at, (std::vector<int32_t>{-1, -1, -1}));
  EXPECT_EQ(kept.extra_seconds, 0);
  EXPECT_EQ(kept.peak_bytes, 4100);
  // 1 is made again for 2, from what is kept of 0.
  const AgainChoice some = play_again(step, {true, false, false});
  EXPECT_EQ(some.again_at, (std::vector<int32_t>{-1, 0, 0}));
  EXPECT_EQ(some.extra_seconds, 6);
  // All of them at the first moment, where 0 stays for the second.
  const AgainChoice none = play_again(step, {false, false, false});
  EXPECT_EQ(none.again_at, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(none.extra_seconds, 7);
  step.moments = {{1000, 1000}, {0, 0}};
  EXPECT_EQ(play_again(step, {false, false, false}).peak_bytes, 1111);
}

}  // namespace
}  // namespace weft
