// SPDX-License-Identifier: Apache-2.0
#include "search/rotor.h"

#include <gtest/gtest.h>
#include <random>

namespace weft {
namespace {

int64_t peak_of(
    const std::vector<ChainUnit>& chain,
    const std::vector<bool>& is_again,
    const std::vector<bool>& keeps_output) {
  int64_t kept = 0;
  int64_t longest = 0;
  int64_t run = 0;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (!is_again[i]) {
      kept += chain[i].kept_bytes;
      run = 0;
      continue;
    }
    run += chain[i].kept_bytes;
    if (keeps_output[i]) {
      kept += chain[i].output_bytes;
      longest = std::max(longest, run - chain[i].output_bytes);
      run = 0;
    }
  }
  return kept + longest;
}

// Over all choices; the last of a run keeps its output.
double brute_force(const std::vector<ChainUnit>& chain, int64_t budget) {
  const size_t count = chain.size();
  double best = -1;
  for (size_t again = 0; again < size_t{1} << count; ++again) {
    for (size_t keeps = 0; keeps < size_t{1} << count; ++keeps) {
      std::vector<bool> is_again;
      std::vector<bool> keeps_output;
      double seconds = 0;
      bool is_valid = true;
      for (size_t i = 0; i < count; ++i) {
        is_again.push_back((again >> i & 1) != 0);
        keeps_output.push_back((keeps >> i & 1) != 0);
        seconds += is_again[i] ? chain[i].forward_seconds : 0;
        const bool next_is_again = i + 1 < count && (again >> (i + 1) & 1) != 0;
        is_valid =
            is_valid && (keeps_output[i] || (is_again[i] && next_is_again));
      }
      if (is_valid && peak_of(chain, is_again, keeps_output) <= budget &&
          (best < 0 || seconds < best)) {
        best = seconds;
      }
    }
  }
  return best;
}

TEST(Rotor, FindsWhatBruteForceFinds) {
  std::mt19937 random(7);
  int found = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ChainUnit> chain(1 + random() % 6);
    int64_t all = 0;
    for (ChainUnit& unit : chain) {
      unit.output_bytes = 1 + static_cast<int64_t>(random() % 8);
      unit.kept_bytes = unit.output_bytes + static_cast<int64_t>(random() % 30);
      unit.forward_seconds = 1 + static_cast<double>(random() % 9);
      all += unit.kept_bytes;
    }
    const int64_t budget = 1 + static_cast<int64_t>(random()) % all;
    // A slot a byte: nothing is rounded.
    const auto choice = rotor(chain, budget, budget);
    const double expected = brute_force(chain, budget);
    ASSERT_EQ(choice.has_value(), expected >= 0) << trial;
    if (choice) {
      ++found;
      EXPECT_EQ(choice->extra_seconds, expected) << trial;
      EXPECT_LE(choice->peak_bytes, budget) << trial;
      EXPECT_EQ(
          choice->peak_bytes,
          peak_of(chain, choice->is_again, choice->keeps_output))
          << trial;
    }
  }
  EXPECT_GT(found, 50);
}

TEST(Rotor, RoundsUpAndFits) {
  const std::vector<ChainUnit> chain(40, {1.0, 1000, 100});
  const auto all = rotor(chain, 40'000, 100);
  ASSERT_TRUE(all.has_value());
  const auto tight = rotor(chain, 12'000, 100);
  ASSERT_TRUE(tight.has_value());
  EXPECT_LE(tight->peak_bytes, 12'000);
  EXPECT_LE(tight->extra_seconds, 40.0);
  EXPECT_GT(tight->extra_seconds, all->extra_seconds);
  EXPECT_FALSE(rotor(chain, 500, 100).has_value());
}

}  // namespace
}  // namespace weft
