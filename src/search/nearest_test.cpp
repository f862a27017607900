// SPDX-License-Identifier: Apache-2.0
#include "search/nearest.h"

#include "base/error.h"
#include "search/test_step.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

SearchOptions limited(
    const std::vector<std::string>& fix,
    const std::vector<std::string>& forbid = {}) {
  SearchOptions options;
  for (const std::string& word : fix) {
    fix_word(options.limits, word);
  }
  for (const std::string& word : forbid) {
    forbid_word(options.limits, word);
  }
  return options;
}

std::string message_of(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options) {
  try {
    find_plan(graph, cluster, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Nearest, MoreDevices) {
  const Graph graph = chain_step(2, 32, 32, 64);
  Cluster cluster = test_cluster(2, 1e9, 1e8);
  cluster.device.memory_bytes = 12'000;
  const std::string message = message_of(graph, cluster, {});
  EXPECT_TRUE(has(message, "no plan fits 11.7 KiB a rank on @")) << message;
  EXPECT_TRUE(has(message, "the least that any plan needs is")) << message;
  EXPECT_TRUE(has(message, "; it fits with ")) << message;
  EXPECT_TRUE(has(message, " devices in place of 2, by estimates")) << message;
}

TEST(Nearest, MoreNodes) {
  const Graph graph = chain_step(4, 8, 32, 64);
  Cluster cluster = test_cluster(2, 1e9, 1e8);
  cluster.groups.push_back({"pod", 2, cluster.groups.front().link});
  cluster.device.memory_bytes = 100;
  // Three quarters of the least that anything needs there.
  const SearchResult nothing = search(graph, cluster, {});
  int64_t least = int64_t{1} << 40;
  for (const Tried& tried : nothing.tried) {
    if (tried.estimate.needed_bytes > 0) {
      least = std::min(least, tried.estimate.needed_bytes);
    }
  }
  cluster.device.memory_bytes = least * 3 / 4;
  const std::string message = message_of(graph, cluster, {});
  EXPECT_TRUE(has(message, " nodes in place of 2 (")) << message;
}

// What fits with the wider budget does so without what binds it, too.
TEST(Nearest, WithoutALimitOrWithTheWholeMemory) {
  const Graph graph = chain_step(4, 512, 16, 256);
  Cluster cluster = test_cluster(2, 1e9, 1e8);
  SearchOptions bound = limited(
      {"micro-batches=1", "data=2", "zero=0"}, {"recompute", "pipeline"});
  const SearchResult roomy = search(graph, cluster, bound);
  ASSERT_TRUE(roomy.plan.has_value());
  bound.max_bytes = roomy.tried.front().bytes() / 2;
  const std::string message = message_of(graph, cluster, bound);
  EXPECT_TRUE(has(message, "without fix micro-batches=1")) << message;
  EXPECT_TRUE(has(message, "into the ")) << message;
  EXPECT_TRUE(has(message, " that a device has")) << message;
}

TEST(Nearest, NothingHelps) {
  const Graph graph = chain_step(2, 2, 32, 64);
  Cluster cluster = test_cluster(2, 1e9, 1e8);
  cluster.device.memory_bytes = 100;
  const std::string message = message_of(graph, cluster, {});
  EXPECT_TRUE(
      has(message, "; take a smaller model, or devices with more memory"))
      << message;
}

TEST(Nearest, ABatchThatDoesNotDivide) {
  const Graph graph = chain_step(2, 6, 16, 32);
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  EXPECT_EQ(
      message_of(graph, cluster, limited({"data=4"})),
      "no mesh of 4 ranks with these words shares a batch of 6 rows evenly; "
      "take a batch of 4 or 8, or leave out one of the words");
  EXPECT_EQ(
      message_of(graph, cluster, limited({"data=1", "micro-batches=5"})),
      "no mesh of 4 ranks with these words shares a batch of 6 rows evenly; "
      "take a batch of 5 or 10, or leave out one of the words");
  EXPECT_EQ(
      message_of(graph, cluster, limited({"data=2"}, {"tensor", "pipeline"})),
      "no mesh of 4 ranks with these words can be made; leave out fix data=2 "
      "or forbid pipeline or forbid tensor");
}

TEST(Nearest, WordsThatNeedOthers) {
  const Graph graph = chain_step(2, 8, 16, 32);
  const Cluster cluster = test_cluster(4, 1e9, 1e8);
  EXPECT_EQ(
      message_of(graph, cluster, limited({"zero=2", "data=1"})),
      "zero=2 is asked for, which needs data above 1, and data=1 is, too; "
      "leave one of them out");
  EXPECT_EQ(
      message_of(graph, cluster, limited({"sequence"}, {"tensor"})),
      "sequence=on is asked for, which needs tensor above 1, and tensor is "
      "forbidden; leave one of them out");
  EXPECT_EQ(
      message_of(graph, cluster, limited({"schedule=zb-h1"}, {"pipeline"})),
      "schedule=zb-h1 is asked for, which needs pipeline above 1, and pipeline "
      "is forbidden; leave one of them out");
  SearchLimits limits;
  EXPECT_THROW(fix_word(limits, "schedule=fast"), UserError);
}

}  // namespace
}  // namespace weft
