// SPDX-License-Identifier: Apache-2.0
#include "search/refusal.h"

#include "base/error.h"
#include "search/search.h"
#include "search/test_step.h"

#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <vector>

namespace weft {
namespace {

TEST(RefusalTest, MistakesOfOursAreFaultsAndThoseOfUsersAreNot) {
  EXPECT_EQ(refusal_of([] {}), "");
  const std::string user = refusal_of([] { throw UserError("no room"); });
  EXPECT_EQ(user, "no room");
  EXPECT_FALSE(is_fault(user));
  const std::string ours = refusal_of([] { WEFT_CHECK(false, "in parts"); });
  EXPECT_TRUE(is_fault(ours));
  EXPECT_NE(ours.find("in parts"), std::string::npos);
  EXPECT_TRUE(is_fault(refusal_of([] { std::vector<int>().at(1); })));
  EXPECT_THROW(refusal_of([] { throw std::bad_alloc(); }), std::bad_alloc);
}

// The plan of a step that needs no choice, but that some candidates fail.
SearchResult search_failing(
    const std::function<bool(const Candidate&)>& does_fail) {
  const Graph graph = chain_step({32, 32}, 8, 16);
  const Cluster cluster = test_cluster(2, 1e9, 1e9);
  SearchOptions options;
  options.before_lowering = [&](const Candidate& candidate) {
    WEFT_CHECK(!does_fail(candidate), "a value is returned in parts");
  };
  return search(graph, cluster, options);
}

TEST(RefusalTest, AMistakeInOneCandidateIsItsReasonAndEndsNoSearch) {
  const SearchResult whole =
      search_failing([](const Candidate&) { return false; });
  ASSERT_TRUE(whole.plan.has_value());
  EXPECT_TRUE(whole.faults.empty());
  const Candidate best = whole.tried.front().candidate;

  const SearchResult result = search_failing(
      [&](const Candidate& candidate) { return candidate == best; });
  ASSERT_TRUE(result.plan.has_value());
  EXPECT_FALSE(result.tried.front().candidate == best);
  bool is_met = false;
  for (const Tried& tried : result.tried) {
    if (tried.candidate == best) {
      is_met = true;
      EXPECT_TRUE(is_fault(tried.reason)) << tried.reason;
      EXPECT_NE(tried.reason.find("refusal_test.cpp"), std::string::npos)
          << tried.reason;
    }
  }
  EXPECT_TRUE(is_met);
  ASSERT_EQ(result.faults.size(), 1);
  EXPECT_TRUE(result.faults.front().starts_with(print(best)));
}

TEST(RefusalTest, WhereAllFailTheFaultIsToldOnce) {
  const SearchResult result =
      search_failing([](const Candidate&) { return true; });
  EXPECT_EQ(result.faults.size(), 1);
  for (const Tried& tried : result.tried) {
    EXPECT_TRUE(!tried.reason.empty() || !tried.simulated_seconds);
  }
}

}  // namespace
}  // namespace weft
