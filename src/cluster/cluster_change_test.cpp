// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_change.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Cluster pod() { return cluster_preset("2x8xA100-80G").value_or(Cluster{}); }

Cluster with(const std::string& text) {
  return changed(pod(), parse_cluster_changes(text));
}

std::string message_of(const std::string& text, const Cluster& cluster) {
  try {
    changed(cluster, parse_cluster_changes(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ClusterChange, PrintsWhatItParsed) {
  for (const char* text :
       {"bandwidth=2x",
        "latency=0.5x",
        "flops=1.25x",
        "memory=4x",
        "memory-rate=2x",
        "devices=2x",
        "nodes=3x",
        "bandwidth=2x,memory=0.1x"}) {
    EXPECT_EQ(print(parse_cluster_changes(text)), text);
  }
}

TEST(ClusterChange, ChangesOneFigureAndNothingElse) {
  const Cluster before = pod();
  Cluster after = with("bandwidth=2x");
  EXPECT_EQ(
      after.groups[0].link.bytes_per_second,
      2 * before.groups[0].link.bytes_per_second);
  EXPECT_EQ(
      after.groups[1].link.bytes_per_second,
      2 * before.groups[1].link.bytes_per_second);
  EXPECT_EQ(after.tiers, before.tiers);
  EXPECT_EQ(changed(after, parse_cluster_changes("bandwidth=0.5x")), before);

  EXPECT_EQ(
      with("memory=0.5x").device.memory_bytes, before.device.memory_bytes / 2);
  EXPECT_EQ(
      with("flops=2x").device.rates.front().flops_per_second,
      2 * before.device.rates.front().flops_per_second);
  EXPECT_EQ(
      with("memory-rate=2x").device.memory_bytes_per_second,
      2 * before.device.memory_bytes_per_second);
  EXPECT_EQ(
      with("latency=0.5x").groups[0].link.start_seconds,
      before.groups[0].link.start_seconds / 2);
  after = with("latency=0.5x");
  EXPECT_EQ(changed(after, parse_cluster_changes("latency=2x")), before);
}

TEST(ClusterChange, MoreNodesAndDevices) {
  EXPECT_EQ(device_count(with("nodes=2x")), 32);
  EXPECT_EQ(device_count(with("nodes=1.5x")), 24);
  EXPECT_EQ(device_count(with("nodes=2x,devices=0.5x")), 16);
  // They share the adapters of their node.
  const Cluster more = with("devices=2x");
  EXPECT_EQ(device_count(more), 32);
  EXPECT_EQ(more.groups[1].link.devices_per_link, 16);
}

TEST(ClusterChange, MessagesSayWhatWouldDo) {
  EXPECT_EQ(
      message_of("speed=2x", pod()),
      "a cluster has no \"speed\" to change; there are bandwidth, latency, "
      "flops, memory, memory-rate, devices, nodes, as in bandwidth=2x");
  for (const char* text : {"bandwidth", "bandwidth=", "bandwidth=2"}) {
    EXPECT_EQ(
        message_of(text, pod()),
        std::string("bandwidth is changed by a factor, as in bandwidth=2x or "
                    "bandwidth=0.5x; found \"") +
            text + "\"");
  }
  EXPECT_NE(message_of("bandwidth=-2x", pod()), "no error");
  EXPECT_NE(message_of("bandwidth=0x", pod()), "no error");
  EXPECT_EQ(
      message_of("nodes=0.25x", pod()),
      "nodes=0.25x of 2 in each cluster is 0.5; take a factor that gives a "
      "whole number");
  EXPECT_EQ(
      message_of("nodes=2x", cluster_preset("8xA100-80G").value_or(Cluster{})),
      "cluster @A100_80G is a single node: nothing says what would join it to "
      "others. Take a name with its nodes, as in 1x8xA100-80G, add a group to "
      "its file, or change devices");
}

}  // namespace
}  // namespace weft
