// SPDX-License-Identifier: Apache-2.0
#include "plan/pattern_index.h"

#include <gtest/gtest.h>
#include <string>

namespace weft {
namespace {

std::vector<Recompute> lines(const std::vector<std::string>& patterns) {
  std::vector<Recompute> out;
  for (const std::string& pattern : patterns) {
    out.push_back({.pattern = pattern});
  }
  return out;
}

// As asking every pattern would.
TEST(PatternIndex, FindsWhatMatches) {
  const std::vector<Recompute> all = lines(
      {"*",
       "blocks.*",
       "blocks.*/mm",
       "blocks.1/mm",
       "*mm",
       "b*s.*/m*",
       "m*m",
       "blocks.1/mm",
       "",
       "*.*.*"});
  const PatternIndex index(all);
  for (const std::string name :
       {"",
        "m",
        "mm",
        "blocks.1/mm",
        "blocks.12/mm",
        "blocks.1/mm.1",
        "head/mm",
        "a.b.c",
        "blocks."}) {
    std::optional<size_t> last;
    size_t count = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (matches(all[i].pattern, name)) {
        last = i;
        ++count;
      }
    }
    EXPECT_EQ(index.last_match(name), last) << name;
    EXPECT_EQ(index.has_match(name), last.has_value()) << name;
    size_t found = 0;
    index.for_each_match(name, [&](size_t number) {
      EXPECT_TRUE(matches(all[number].pattern, name)) << name;
      ++found;
    });
    EXPECT_EQ(found, count) << name;
  }
}

TEST(PatternIndex, TheLastDecisionCounts) {
  Plan plan;
  for (const char* pattern : {"a*", "*.b", "a.b", "c*"}) {
    plan.decisions.push_back({.pattern = pattern, .layout = {}});
  }
  const PatternIndex index(plan.decisions);
  EXPECT_EQ(decision_for(plan, index, "a")->pattern, "a*");
  EXPECT_EQ(decision_for(plan, index, "a.b")->pattern, "a.b");
  EXPECT_EQ(decision_for(plan, index, "a.c.b")->pattern, "*.b");
  EXPECT_EQ(decision_for(plan, index, "c.b")->pattern, "c*");
  EXPECT_EQ(decision_for(plan, index, "d"), nullptr);
}

}  // namespace
}  // namespace weft
