// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulate.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// A call takes 1 s whatever it does; 4 bytes travel in half a second.
constexpr const char* kCluster = R"(cluster @slow
device cpu
  flops_per_second f32 = 1e+20
  memory_bytes = 1024
  memory_bytes_per_second = 1e+20
  call_seconds = 1.0
group pair = 2 x cpu
  latency_seconds = 0.25
  bytes_per_second = 8.0
)";

Program program(const std::string& middle) {
  return parse_program(
      "program @p on <data=2>\n"
      "block @step ranks 0 to 1 {\n"
      "  input %x : f32[] = batch \"0\" at []\n"
      "forward:\n"
      "  %g = aten.neg(%x) : f32[] at [] +{data}\n"
      "  start %g.sum = all_reduce(%g) over {data}\n" +
          middle +
          "  return loss = %g.sum\n"
          "}\n",
      "p");
}

TEST(Simulate, CostsAreTheLongerOfFlopsAndBytes) {
  Device device;
  device.rates = {{DType::F32, 100}, {DType::F64, 50}};
  device.memory_bytes_per_second = 10;
  device.call_seconds = 0.5;
  NodeCosts costs;
  EXPECT_EQ(call_seconds(costs, DType::F32, device), 0.5);
  costs.flops = 200;
  EXPECT_EQ(call_seconds(costs, DType::F32, device), 2);
  EXPECT_EQ(call_seconds(costs, DType::F64, device), 4);
  costs.read_bytes = 30;
  costs.written_bytes = 20;
  EXPECT_EQ(call_seconds(costs, DType::F32, device), 5);
}

TEST(Simulate, AllReduceIsARing) {
  const Link link = {.latency_seconds = 1, .bytes_per_second = 10};
  EXPECT_EQ(all_reduce_seconds(2, 100, link), 2 + 10);
  EXPECT_EQ(all_reduce_seconds(4, 100, link), 6 + 15);
}

TEST(Simulate, CollectivesRunBesideCalls) {
  const Cluster cluster = parse_cluster(kCluster, "c");
  const Timeline waits = simulate(
      program("  wait %g.sum\n"
              "  %a = aten.neg(%x) : f32[] at []\n"),
      cluster);
  verify(waits);
  EXPECT_EQ(step_seconds(waits), 1 + 1 + 1);
  const Timeline overlaps = simulate(
      program("  %a = aten.neg(%x) : f32[] at []\n"
              "  wait %g.sum\n"),
      cluster);
  verify(overlaps);
  EXPECT_EQ(step_seconds(overlaps), 1 + 1);
  EXPECT_EQ(overlaps.events.size(), 2u * 4u);
  EXPECT_EQ(overlaps.events[1].stream, Stream::Communication);
  EXPECT_EQ(overlaps.events[1].start_seconds, 1);
  EXPECT_EQ(overlaps.events[1].end_seconds, 2);
}

TEST(Simulate, NeedsADeviceForEveryRank) {
  Cluster cluster = parse_cluster(kCluster, "c");
  cluster.groups.clear();
  EXPECT_THROW(simulate(program("  wait %g.sum\n"), cluster), UserError);
}

}  // namespace
}  // namespace weft
