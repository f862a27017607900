// SPDX-License-Identifier: Apache-2.0
#include "profile/repetitions.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>
#include <random>
#include <string>

namespace weft {
namespace {

std::vector<int32_t> sequence_of(const std::string& text) {
  return {text.begin(), text.end()};
}

// The definition, word for word, in cubic time.
std::vector<Repetition> by_definition(const std::vector<int32_t>& s) {
  const auto n = static_cast<int32_t>(s.size());
  const auto at = [&](int32_t i) { return s[static_cast<size_t>(i)]; };
  std::vector<Repetition> found;
  for (int32_t begin = 0; begin < n; ++begin) {
    for (int32_t period = 1; begin + 2 * period <= n; ++period) {
      int32_t end = begin + period;
      while (end < n && at(end) == at(end - period)) {
        ++end;
      }
      const bool repeats = end - begin >= 2 * period;
      const bool longer = begin > 0 && at(begin - 1) == at(begin - 1 + period);
      bool smaller = false;
      for (const Repetition& other : found) {
        smaller = smaller || (other.begin == begin && other.end == end);
      }
      if (repeats && !longer && !smaller) {
        found.push_back({begin, end, period});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  return found;
}

TEST(Repetitions, OfWords) {
  EXPECT_TRUE(find_repetitions({}).empty());
  EXPECT_TRUE(find_repetitions(sequence_of("abcd")).empty());
  // "issi" twice over: ississi; and three times two letters.
  EXPECT_EQ(
      find_repetitions(sequence_of("mississippi")),
      (std::vector<Repetition>{{1, 8, 3}, {2, 4, 1}, {5, 7, 1}, {8, 10, 1}}));
}

TEST(Repetitions, AsTheDefinitionSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<int32_t> s(random() % 40);
    const auto letters = 1 + random() % 3;
    for (int32_t& symbol : s) {
      symbol = static_cast<int32_t>(random() % letters);
    }
    EXPECT_EQ(find_repetitions(s), by_definition(s));
  }
}

TEST(Repetitions, OfALongSequenceAreFast) {
  // 1,000 layers of 100 nodes, of 7 kinds of node.
  std::vector<int32_t> s(100000);
  for (size_t i = 0; i < s.size(); ++i) {
    s[i] = static_cast<int32_t>((i % 100) * (i % 100) % 7);
  }
  s.front() = 9;
  const std::clock_t start = std::clock();
  const std::vector<Repetition> found = find_repetitions(s);
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_NE(
      std::find(found.begin(), found.end(), Repetition{1, 100000, 100}),
      found.end());
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  EXPECT_LT(seconds, 1.0);  // 0.02 s; the rest is for slow machines
}

}  // namespace
}  // namespace weft
