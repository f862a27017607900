// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "cluster/cluster.h"
#include "cluster/cluster_change.h"

namespace weft {
namespace {

// All that there is to say.
constexpr const char* kWorld = R"(cluster @world
device big
  flops_per_second f32 = 2.0e13
  memory_bytes = 85899345920
  memory_bytes_per_second = 1.5e12
  call_seconds = 2.0e-06
  launch_seconds = 6.0e-06
  run_ahead_calls = 64
  price_per_hour = 2.5
  units = 108
  tile 128 x 64 = 0.8
  ramp_depth = 64.0
  efficiency product 1000000.0 = 0.5
  efficiency product 1e+09 = 0.9
device small
  flops_per_second f32 = 1.0e13
  memory_bytes = 42949672960
  memory_bytes_per_second = 1.0e12
  call_seconds = 2.0e-06
tier host
  memory_bytes = 68719476736
  read_bytes_per_second = 1.0e10
  latency_seconds = 1.0e-05
  bytes_per_second = 1.2e10
  devices_per_link = 2
group node = 2 x big
  latency_seconds = 3.0e-05
  bytes_per_second = 1.0e9
  start_seconds = 1.0e-05
  device_share = 0.5
  efficiency send 1000000.0 = 0.8
group other = 4 x small
  latency_seconds = 3.0e-05
  bytes_per_second = 1.0e9
group world = 2 x node + 1 x other
  latency_seconds = 2.0e-04
  bytes_per_second = 1.2e8
  between node other
    latency_seconds = 1.0e-02
    bytes_per_second = 1.0e7
)";

TEST(ClusterNumbers, OfAFile) {
  expect_bounded_numbers(kWorld, {"c:"}, [](const std::string& text) {
    const Cluster cluster = parse_cluster(text, "c");
    const int64_t devices = device_count(cluster);
    EXPECT_GE(devices, 1);
    EXPECT_GE(link_between(cluster, {0, devices - 1}).devices_per_link, 1);
    EXPECT_EQ(parse_cluster(print(cluster), "again"), cluster);
    EXPECT_GE(price_per_hour(cluster), 0);
  });
}

// Each group is none too large, and all of them together are.
TEST(ClusterNumbers, ProductsOfGroups) {
  std::string text = kWorld;
  text.replace(text.find("2 x big"), 7, "1000000 x big");
  try {
    parse_cluster(text, "c");
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "c: cluster @world: group world has more than 1,000,000 devices");
  }
}

TEST(ClusterNumbers, OfNames) {
  for (const char* name : {"2x8xA100-80G", "2x8xH100+4xHDR"}) {
    // What is no name may be a file.
    for_each_number(name, [&](size_t at, size_t length) {
      for (const std::string_view odd : kOddNumbers) {
        std::string changed = name;
        changed.replace(at, length, odd);
        EXPECT_THROW(
            {
              const Cluster cluster = load_cluster(changed);
              EXPECT_LE(device_count(cluster), 1'000'000) << changed;
              throw UserError("it is a cluster");
            },
            UserError)
            << changed;
      }
    });
  }
  EXPECT_THROW(cluster_preset("1000000x1000000xH100"), UserError);
  EXPECT_THROW(cluster_preset("9223372036854775807xH100"), UserError);
}

TEST(ClusterNumbers, OfChanges) {
  const Cluster cluster = load_cluster("2x8xH100");
  for (const char* text : {"devices=2x", "nodes=2x", "memory=2x", "flops=2x"}) {
    expect_bounded_numbers(
        text,
        {"devices", "nodes", "memory", "flops", "a cluster has", "cluster @"},
        [&](const std::string& changed_text) {
          const Cluster other =
              changed(cluster, parse_cluster_changes(changed_text));
          EXPECT_GE(device_count(other), 1);
        });
  }
}

}  // namespace
}  // namespace weft
