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

TEST(Simulate, TransfersAreMessagesAndBytes) {
  const Link link = {.latency_seconds = 1, .bytes_per_second = 10};
  const auto seconds = [&](TransferKind kind, int64_t ranks, int64_t bytes) {
    return transfer_seconds(kind, ranks, bytes, link);
  };
  // Of 100 bytes, a ring takes 100 on 2 ranks and 150 on 4.
  EXPECT_EQ(seconds(TransferKind::AllReduce, 2, 100), 2 + 10);
  EXPECT_EQ(seconds(TransferKind::AllReduce, 4, 150), 6 + 15);
  EXPECT_EQ(seconds(TransferKind::AllGather, 4, 300), 3 + 30);
  EXPECT_EQ(seconds(TransferKind::ReduceScatter, 4, 75), 3 + 7.5);
  EXPECT_EQ(seconds(TransferKind::AllToAll, 4, 75), 3 + 7.5);
  EXPECT_EQ(seconds(TransferKind::Send, 2, 100), 1 + 10);
  Device device;
  device.memory_bytes_per_second = 10;
  EXPECT_EQ(copy_seconds(5, device), 1);
}

// The same block on both ranks, but for whom they send to.
double pair_seconds(const std::string& body) {
  std::string text = "program @p on <data=2>\n";
  for (const std::string rank : {"0", "1"}) {
    std::string mine = body;
    for (size_t at = mine.find("PEER"); at != std::string::npos;
         at = mine.find("PEER")) {
      mine.replace(at, 4, rank == "0" ? "1" : "0");
    }
    text += cat("block @r", rank, " ranks ", rank, " to ", rank, " {\n", mine);
    text += "}\n";
  }
  const Program program = parse_program(text, "p");
  verify(program);
  const Timeline timeline = simulate(program, parse_cluster(kCluster, "c"));
  verify(timeline);
  return step_seconds(timeline);
}

TEST(Simulate, EveryKindOfTransferHasItsPrice) {
  const std::string piece = "  input %x : f32[2] = batch \"0\" at [data]\n";
  const std::string sum = "  input %x : f32[4] = batch \"0\" at [-] +{data}\n";
  // A message takes 0.25 s, 8 bytes 1 s.
  EXPECT_EQ(
      pair_seconds(
          piece + "  start %y = all_gather(%x) over {data}\n  wait %y\n"),
      0.25 + 1);
  EXPECT_EQ(
      pair_seconds(
          sum + "  start %y = reduce_scatter(%x) over {data}\n  wait %y\n"),
      0.25 + 1);
  EXPECT_EQ(
      pair_seconds(
          sum + "  start %y = all_reduce(%x) over {data}\n  wait %y\n"),
      0.5 + 2);
  EXPECT_EQ(
      pair_seconds("  input %x : f32[1, 4] = batch \"0\" at [data, -]\n"
                   "  start %y = all_to_all(%x) over {data}\n"
                   "  wait %y\n"),
      0.25 + 1);
  // Both directions at once, though both send first.
  EXPECT_EQ(
      pair_seconds(
          piece + "  start %x.sent = send(%x) to PEER\n"
                  "  start %y = receive : f32[2] at [data] from PEER\n"
                  "  wait %x.sent\n"
                  "  wait %y\n"),
      0.25 + 1);
  // One after the other.
  EXPECT_EQ(
      pair_seconds(
          piece + "  start %y = all_gather(%x) over {data}\n"
                  "  start %x.sent = send(%x) to PEER\n"
                  "  start %z = receive : f32[2] at [data] from PEER\n"
                  "  wait %x.sent\n"
                  "  wait %y\n"
                  "  wait %z\n"),
      2 * (0.25 + 1));
  // Memory is fast here.
  EXPECT_LT(
      pair_seconds(
          piece + "  start %y = copy(%x) to host\n"
                  "  wait %y\n"),
      1e-9);
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
