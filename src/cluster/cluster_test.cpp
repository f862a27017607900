// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr const char* kPod = R"(cluster @pod
device cpu
  flops_per_second f32 = 4e+10
  flops_per_second bf16 = 8e+10
  memory_bytes = 12884901888
  memory_bytes_per_second = 8e+09
  call_seconds = 4e-06
group node = 2 x cpu
  latency_seconds = 3e-05
  bytes_per_second = 1e+09
group pod = 4 x node
  latency_seconds = 2e-04
  bytes_per_second = 1.2e+08
)";

std::string message_of(const std::string& text) {
  try {
    parse_cluster(text, "c");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Cluster, PrintsWhatItParsed) {
  const Cluster cluster = parse_cluster(kPod, "pod");
  EXPECT_EQ(print(cluster), kPod);
  EXPECT_EQ(parse_cluster(print(cluster), "again"), cluster);
  EXPECT_EQ(device_count(cluster), 8);
}

TEST(Cluster, RatesFallBackToTheFirst) {
  const Cluster cluster = parse_cluster(kPod, "pod");
  EXPECT_EQ(flops_per_second(cluster.device, DType::BF16), 8e10);
  EXPECT_EQ(flops_per_second(cluster.device, DType::F64), 4e10);
}

TEST(Cluster, LinkIsTheInnermostThatJoinsTheRanks) {
  const Cluster cluster = parse_cluster(kPod, "pod");
  EXPECT_EQ(link_between(cluster, {2, 3}).bytes_per_second, 1e9);
  EXPECT_EQ(link_between(cluster, {1, 2}).bytes_per_second, 1.2e8);
  EXPECT_THROW(link_between(cluster, {0, 8}), UserError);
}

TEST(Cluster, Presets) {
  const Cluster cluster = cluster_preset("2x8xA100-80G").value_or(Cluster{});
  EXPECT_EQ(device_count(cluster), 16);
  EXPECT_EQ(parse_cluster(print(cluster), "again"), cluster);
  EXPECT_LT(
      link_between(cluster, {7, 8}).bytes_per_second,
      link_between(cluster, {0, 7}).bytes_per_second);
  EXPECT_EQ(device_count(cluster_preset("4xA100-80G").value_or(Cluster{})), 4);
  EXPECT_EQ(cluster_preset("examples/x.cluster"), std::nullopt);
  EXPECT_THROW(cluster_preset("4xA1"), UserError);
}

TEST(Cluster, MessagesSayWhereAndWhat) {
  std::string text = kPod;
  text.replace(text.find("4 x node"), 8, "4 x core");
  EXPECT_EQ(
      message_of(text),
      "c:11:17: group pod must be made of node, which stands just before it, "
      "not of core");
  text = kPod;
  text.replace(text.find("4e+10"), 5, "-1.0");
  EXPECT_EQ(
      message_of(text),
      "cluster @pod: flops_per_second of cpu must be a positive number, not "
      "-1.0");
}

}  // namespace
}  // namespace weft
