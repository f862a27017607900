// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include "base/error.h"
#include "base/text.h"

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

// Everything that there is to say.
constexpr const char* kWorld = R"(cluster @world
device big
  flops_per_second f32 = 2e+13
  memory_bytes = 85899345920
  memory_bytes_per_second = 2e+12
  call_seconds = 2e-06
  launch_seconds = 4e-05
  run_ahead_calls = 32
  price_per_hour = 2.5
  units = 108
  tile 256 x 128 = 0.8
  tile 64 x 64 = 0.5
  ramp_depth = 80.0
  efficiency product 1e+06 = 0.5
  efficiency product 1e+09 = 0.9
  efficiency convolution 1e+06 = 0.6
  efficiency memory 1e+05 = 0.75
device small
  flops_per_second f32 = 1e+13
  memory_bytes = 17179869184
  memory_bytes_per_second = 9e+11
  call_seconds = 2e-06
tier host
  memory_bytes = 274877906944
  read_bytes_per_second = 2e+10
  latency_seconds = 1e-05
  bytes_per_second = 2.5e+10
  devices_per_link = 2
group eu = 4 x big
  latency_seconds = 3e-06
  bytes_per_second = 3e+11
  start_seconds = 1e-05
  device_share = 0.25
  efficiency all_reduce 1e+05 = 0.5
  efficiency all_reduce 1e+07 = 0.9
  efficiency send 1e+06 = 0.8
group us = 2 x small
  latency_seconds = 3e-06
  bytes_per_second = 1e+11
group asia = 2 x big + 2 x small
  latency_seconds = 3e-06
  bytes_per_second = 1e+11
group world = 2 x eu + 1 x us + 1 x asia
  latency_seconds = 0.001
  bytes_per_second = 1e+10
  devices_per_link = 4
  between eu asia
    latency_seconds = 0.1
    bytes_per_second = 1e+08
)";

TEST(Cluster, MachinesNeedNotBeAlike) {
  const Cluster world = parse_cluster(kWorld, "world");
  EXPECT_EQ(print(world), kWorld);
  EXPECT_EQ(parse_cluster(print(world), "again"), world);
  EXPECT_EQ(device_count(world), 2 * 4 + 2 + 4);
  EXPECT_EQ(device_of(world, 7).name, "big");
  EXPECT_EQ(device_of(world, 8).name, "small");
  EXPECT_EQ(device_of(world, 11).name, "big");
  EXPECT_EQ(device_of(world, 12).name, "small");
  EXPECT_THROW(device_of(world, 14), UserError);
  EXPECT_EQ(link_between(world, {4, 7}).bytes_per_second, 3e11);
  EXPECT_EQ(link_between(world, {8, 9}).bytes_per_second, 1e11);
  // A fourth of what four devices share; all of it for all of them.
  EXPECT_EQ(link_between(world, {0, 4}).bytes_per_second, 2.5e9);
  EXPECT_EQ(
      link_between(world, {0, 1, 2, 3, 4, 5, 6, 7}).bytes_per_second, 1e10);
  EXPECT_EQ(link_between(world, {0, 8}).latency_seconds, 1e-3);
  // Another way to asia, for everyone who talks to it.
  EXPECT_EQ(link_between(world, {0, 10}).latency_seconds, 0.1);
  EXPECT_EQ(link_between(world, {8, 10}).latency_seconds, 1e-3);
  EXPECT_EQ(link_between(world, {0, 8, 10}).latency_seconds, 0.1);
  EXPECT_EQ(find_tier(world, "host")->link.devices_per_link, 2);
  EXPECT_EQ(find_tier(world, "disk"), nullptr);
}

TEST(Cluster, DevicesHaveAPrice) {
  Cluster world = parse_cluster(kWorld, "world");
  // Ten are big, and nobody said what a small one costs.
  EXPECT_DOUBLE_EQ(price_per_hour(world), 10 * 2.5);
  set_price_per_hour(world, 2);
  EXPECT_DOUBLE_EQ(price_per_hour(world), 14 * 2);
  EXPECT_EQ(price_per_hour(parse_cluster(kPod, "pod")), 0);
  EXPECT_THROW(set_price_per_hour(world, -1), UserError);
}

TEST(Cluster, EfficienciesLieBetweenTheirPoints) {
  const Device& big = parse_cluster(kWorld, "world").device;
  EXPECT_EQ(efficiency(big, Work::Product, 1e3), 0.5);
  EXPECT_EQ(efficiency(big, Work::Product, 1e12), 0.9);
  EXPECT_NEAR(efficiency(big, Work::Product, 3.1622776e7), 0.7, 1e-6);
  EXPECT_EQ(efficiency(big, Work::Memory, 1e9), 0.75);
  EXPECT_EQ(efficiency(big, Work::Attention, 1e9), 1);
  EXPECT_EQ(efficiency(big, Work::ConvolutionBackward, 1e9), 0.6);
  const Link link = link_between(parse_cluster(kWorld, "world"), {0, 1});
  EXPECT_NEAR(efficiency(link, "all_reduce", 1e6), 0.7, 1e-6);
  EXPECT_EQ(efficiency(link, "send", 1), 0.8);
  EXPECT_EQ(efficiency(link, "all_gather", 1e6), 1);
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
  for (const char* kind :
       {"V100", "A100-40G", "A100-80G", "H100", "H200", "B200", "RTX4090"}) {
    const Cluster each =
        cluster_preset(cat("128x8x", kind)).value_or(Cluster{});
    EXPECT_EQ(device_count(each), 1024) << kind;
    EXPECT_EQ(parse_cluster(print(each), kind), each);
  }
  // Adapters that all devices of a node share.
  const auto across = [](const char* name) {
    return link_between(cluster_preset(name).value_or(Cluster{}), {0, 8})
        .bytes_per_second;
  };
  EXPECT_DOUBLE_EQ(across("2x8xA100-80G"), 2 * across("2x8xA100-80G+4xHDR"));
  EXPECT_THROW(cluster_preset("2x8xA100-80G+4xABC"), UserError);
  EXPECT_THROW(cluster_preset("2x8xA100-80G+HDR"), UserError);
}

TEST(Cluster, MessagesSayWhereAndWhat) {
  std::string text = kPod;
  text.replace(text.find("4 x node"), 8, "4 x core");
  EXPECT_EQ(
      message_of(text),
      "c:11:17: group pod must be made of what stands before it (cpu, node), "
      "not of core");
  text = kPod;
  text.replace(text.find("4e+10"), 5, "-1.0");
  EXPECT_EQ(
      message_of(text),
      "c:3:26: flops_per_second must be a number above 0, found -1.0");
  text = kWorld;
  text.replace(text.find("efficiency memory"), 17, "efficiency thought");
  EXPECT_EQ(
      message_of(text),
      "c:17:14: unknown work \"thought\": there are product, attention, "
      "attention_backward, convolution, convolution_backward, elementwise, "
      "exponential, tangent, memory");
  text = kWorld;
  text.replace(text.find("efficiency send"), 15, "efficiency post");
  EXPECT_EQ(
      message_of(text),
      "c:36:14: unknown transfer \"post\": there are all_reduce, all_gather, "
      "reduce_scatter, all_to_all, send");
  text = kWorld;
  text.replace(text.find("device_share = 0.25"), 19, "device_share = 1.5");
  EXPECT_EQ(
      message_of(text),
      "c: cluster @world: device_share of eu must be from 0 to 1, and is 1.5");
  text = kWorld;
  text.replace(text.find("between eu asia"), 15, "between eu mars");
  EXPECT_EQ(
      message_of(text),
      "c: cluster @world: group world has a link of mars, which is none of "
      "its members");
  text = kPod;
  text.replace(text.find("memory_bytes "), 13, "memory_size ");
  EXPECT_EQ(
      message_of(text),
      "c:5:3: expected 'memory_bytes', found \"memory_size\"");
  text = kPod;
  text.insert(text.find("group node"), "  colour = 3\n");
  EXPECT_EQ(
      message_of(text),
      "c:8:3: expected another line of the device, in this order: "
      "launch_seconds, run_ahead_calls, price_per_hour, units, tile, "
      "ramp_depth, efficiency; or 'device', 'tier', 'group' or the end, found "
      "\"colour\"");
  text = kPod;
  text += "  speed = 3\n";
  EXPECT_EQ(
      message_of(text),
      "c:14:3: expected another line of the group (start_seconds, "
      "device_share, "
      "devices_per_link, efficiency, between), 'group' or the end, found "
      "\"speed\"");
}

}  // namespace
}  // namespace weft
