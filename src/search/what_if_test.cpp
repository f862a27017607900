// SPDX-License-Identifier: Apache-2.0
#include "search/what_if.h"

#include "base/error.h"
#include "search/test_step.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

WhatIf asked(
    const Cluster& cluster, const SearchOptions& options, const char* change) {
  return what_if(
      chain_step(2, 8, 32, 64),
      cluster,
      options,
      parse_cluster_changes(change));
}

TEST(WhatIf, BetterMachinesAreNoSlower) {
  const Cluster cluster = test_cluster(2, 1e9, 1e8);
  const double now =
      asked(cluster, {}, "bandwidth=1x").result.tried.front().seconds();
  for (const char* change :
       {"bandwidth=4x", "flops=4x", "latency=0.5x", "memory=2x"}) {
    const WhatIf better = asked(cluster, {}, change);
    ASSERT_TRUE(better.reason.empty()) << better.reason;
    EXPECT_LE(better.result.tried.front().seconds(), now) << change;
  }
  EXPECT_LT(
      asked(cluster, {}, "flops=4x,bandwidth=4x")
          .result.tried.front()
          .seconds(),
      now);
}

// The least budget that a plan keeps to is too little by half.
TEST(WhatIf, ABudgetChangesWithTheMemory) {
  const Cluster cluster = test_cluster(2, 1e9, 1e8);
  SearchOptions options;
  fix_word(options.limits, "data=2");
  fix_word(options.limits, "zero=0");
  fix_word(options.limits, "recompute=none");
  options.max_bytes =
      asked(cluster, options, "memory=1x").result.tried.front().bytes();
  EXPECT_EQ(asked(cluster, options, "memory=1x").reason, "");
  const WhatIf less = asked(cluster, options, "memory=0.25x");
  EXPECT_NE(less.reason.find("no plan fits"), std::string::npos) << less.reason;
}

TEST(WhatIf, MoreDevicesThanRowsIsAReason) {
  const Cluster cluster = test_cluster(2, 1e9, 1e8);
  SearchOptions options;
  forbid_word(options.limits, "tensor");
  forbid_word(options.limits, "pipeline");
  const WhatIf more = asked(cluster, options, "devices=8x");
  EXPECT_EQ(
      more.reason,
      "no mesh of 16 ranks with these words shares a batch of 8 rows evenly; "
      "take a batch of 16, or leave out one of the words");
  EXPECT_THROW(asked(cluster, options, "nodes=2x"), UserError);
}

}  // namespace
}  // namespace weft
