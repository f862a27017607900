// SPDX-License-Identifier: Apache-2.0
#include "simulate/simulate.h"

#include "base/error.h"
#include "profile/call_seconds.h"
#include "profile/signatures.h"
#include "simulate/reuse.h"

#include <algorithm>
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
  costs.is_free = true;
  EXPECT_EQ(call_seconds(costs, DType::F32, device), 0);
  costs.is_free = false;
  costs.flops = 200;
  EXPECT_EQ(call_seconds(costs, DType::F32, device), 0.5 + 2);
  EXPECT_EQ(call_seconds(costs, DType::F64, device), 0.5 + 4);
  costs.read_bytes = 30;
  costs.written_bytes = 20;
  EXPECT_EQ(call_seconds(costs, DType::F32, device), 0.5 + 5);
  // Half of the memory's rate at that size.
  device.efficiencies = {{Work::Memory, {{10, 0.25}, {1000, 0.75}}}};
  costs.read_bytes = 60;
  costs.written_bytes = 40;
  EXPECT_DOUBLE_EQ(call_seconds(costs, DType::F32, device), 0.5 + 20);
}

TEST(Simulate, WhatWasUsedLongAgoHasLeftTheCaches) {
  Device device;
  device.rates = {{DType::F32, 1e9}};
  device.memory_bytes_per_second = 10;
  device.efficiencies = {{Work::Memory, {{100, 4}, {1000, 1}}}};
  EXPECT_TRUE(has_caches(device));
  NodeCosts costs;
  costs.read_bytes = 60;
  costs.written_bytes = 40;
  EXPECT_DOUBLE_EQ(call_seconds(costs, DType::F32, device), 10 / 4.0);
  EXPECT_DOUBLE_EQ(
      call_seconds(costs, DType::F32, device, {{20, 50}, {40, 5000}}),
      10 / 4.0 + 4 * (1 - 1 / 4.0));
  // Devices that have to be busy to be fast.
  device.efficiencies = {{Work::Memory, {{100, 0.5}, {1000, 1}}}};
  EXPECT_FALSE(has_caches(device));

  const Program step = parse_program(
      "program @p on <data=1>\n"
      "block @step ranks 0 to 0 {\n"
      "  input %x : f32[4] = batch \"0\" at [-]\n"
      "forward:\n"
      "  %a = aten.neg(%x) : f32[4] at [-]\n"
      "  %v = aten.view(%a, [2, 2]) : f32[2, 2] at [-, -]\n"
      "  %b = aten.neg(%v) : f32[2, 2] at [-, -]\n"
      "  %c = aten.neg(%x) : f32[4] at [-]\n"
      "  return loss = %c\n"
      "}\n",
      "p");
  const Block& block = step.blocks.front();
  const auto uses =
      uses_of(block, node_costs(block.function, signatures(block.function)));
  // Calls move 32 bytes each. %x was read by the last one, in the step before.
  ASSERT_EQ(uses[0].size(), 2u);
  EXPECT_EQ(uses[0][0].bytes, 16);
  EXPECT_EQ(uses[0][0].since_bytes, 32);
  EXPECT_TRUE(uses[1].empty());
  EXPECT_EQ(uses[2][0].since_bytes, 32);
  EXPECT_EQ(uses[3][0].since_bytes, 64);
  // %c was written in the step before.
  EXPECT_EQ(uses[3][1].bytes, 16);
  EXPECT_EQ(uses[3][1].since_bytes, 96);
}

TEST(Simulate, CostsFollowTheKindOfWorkAndTheSizeOfItsParts) {
  Device device;
  device.rates = {{DType::F32, 100}};
  device.memory_bytes_per_second = 1e9;
  device.efficiencies = {
      {Work::Attention, {{10, 0.25}, {1000, 0.5}}},
      {Work::Tangent, {{1, 0.1}}}};
  NodeCosts attention;
  attention.work = Work::Attention;
  attention.flops = 3000;
  attention.hidden_flops = 1000;
  // 2 heads of 1000 flops that are computed.
  attention.parts = 2;
  EXPECT_DOUBLE_EQ(call_seconds(attention, DType::F32, device), 20 / 0.5);
  attention.parts = 200;
  EXPECT_DOUBLE_EQ(call_seconds(attention, DType::F32, device), 20 / 0.25);
  // Backward as forward, where nobody measured it.
  attention.work = Work::AttentionBackward;
  EXPECT_DOUBLE_EQ(call_seconds(attention, DType::F32, device), 20 / 0.25);
  NodeCosts gelu;
  gelu.work = Work::Tangent;
  gelu.flops = 50;
  gelu.functions = 10;
  EXPECT_DOUBLE_EQ(call_seconds(gelu, DType::F32, device), 0.1 / 0.1);
}

TEST(Simulate, ProductsTakeRoundsOfTiles) {
  Device device;
  device.rates = {{DType::F32, 100}};
  device.memory_bytes_per_second = 1e9;
  NodeCosts costs;
  costs.work = Work::Product;
  costs.product = {.count = 1, .rows = 8, .columns = 8, .depth = 6};
  costs.flops = 2 * 8 * 8 * 6;
  // Without tiles by size.
  device.efficiencies = {{Work::Product, {{768, 0.5}}}};
  EXPECT_DOUBLE_EQ(call_seconds(costs, DType::F32, device), 7.68 / 0.5);
  // 4 tiles on 3 units: 2 rounds; a tile has 2 x 4 x 4 x (6 + 2) flops.
  device.efficiencies.clear();
  device.units = 3;
  device.tiles = {{4, 4, 0.5}};
  device.ramp_depth = 2;
  EXPECT_DOUBLE_EQ(call_seconds(costs, DType::F32, device), 2 * 3 * 256 / 50.0);
  // 16 tiles: 6 rounds of tiles a fourth as large, at the full rate.
  device.tiles.push_back({2, 2, 1});
  EXPECT_DOUBLE_EQ(call_seconds(costs, DType::F32, device), 6 * 3 * 64 / 100.0);
}

TEST(Simulate, HostsRunAheadAndNotTooFar) {
  Device device;
  device.launch_seconds = 1;
  device.run_ahead_calls = 2;
  HostClock host;
  EXPECT_EQ(host.issue(device), 1);
  host.ends_at(device, 11);
  EXPECT_EQ(host.issue(device), 2);
  host.ends_at(device, 21);
  // The first must have ended.
  EXPECT_EQ(host.issue(device), 11);
  device.launch_seconds = 0;
  EXPECT_EQ(HostClock().issue(device), 0);
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
  Link slow = link;
  slow.start_seconds = 5;
  EXPECT_EQ(transfer_seconds(TransferKind::Send, 2, 100, slow), 5 + 1 + 10);
  for (const TransferKind kind : kTransferKinds) {
    const bool has_curve =
        std::find(std::begin(kTransfers), std::end(kTransfers), name(kind)) !=
        std::end(kTransfers);
    EXPECT_EQ(
        has_curve, kind != TransferKind::Receive && kind != TransferKind::Copy)
        << name(kind);
  }
  Link small = link;
  small.efficiencies = {{"send", {{100, 0.5}}}};
  EXPECT_EQ(transfer_seconds(TransferKind::Send, 2, 100, small), 1 + 20);
  EXPECT_EQ(transfer_seconds(TransferKind::Receive, 2, 100, small), 1 + 20);
  EXPECT_EQ(transfer_seconds(TransferKind::AllGather, 2, 100, small), 1 + 10);
  Cluster cluster;
  cluster.device.memory_bytes_per_second = 10;
  EXPECT_EQ(copy_seconds(5, cluster), 1);
  slow.devices_per_link = 2;
  cluster.tiers = {{"host", 1, slow}};
  EXPECT_EQ(copy_seconds(5, cluster), 5 + 1 + 1);
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

// As CollectivesRunBesideCalls, where cores that compute also copy.
TEST(Simulate, TransfersTakeTheirShareOfDevices) {
  Cluster cluster = parse_cluster(kCluster, "c");
  const auto seconds = [&](const std::string& middle) {
    const Timeline timeline = simulate(program(middle), cluster);
    verify(timeline);
    return step_seconds(timeline);
  };
  const std::string waits =
      "  wait %g.sum\n"
      "  %a = aten.neg(%x) : f32[] at []\n";
  const std::string overlaps =
      "  %a = aten.neg(%x) : f32[] at []\n"
      "  wait %g.sum\n";
  cluster.groups.front().link.device_share = 1;
  EXPECT_EQ(seconds(waits), 1 + 1 + 1);
  EXPECT_EQ(seconds(overlaps), 1 + 1 + 1);
  cluster.groups.front().link.device_share = 0.5;
  EXPECT_EQ(seconds(waits), 1 + 1 + 1);
  EXPECT_EQ(seconds(overlaps), 1 + 1 + 0.5);
  const StepSummary summary = summarize(program(overlaps), cluster);
  EXPECT_EQ(summary.step_seconds, 2.5);
  EXPECT_EQ(summary.times.compute_seconds, 2);
  EXPECT_EQ(summary.times.communication_seconds, 0.5);
}

// Rank 1 computes while what rank 0 sends comes in, which rank 1 needs later.
TEST(Simulate, ACallUnderWayEndsLater) {
  Cluster cluster = parse_cluster(kCluster, "c");
  cluster.groups.front().link.device_share = 1;
  const Program staged = parse_program(
      "program @p on <pipe=2>\n"
      "block @first ranks 0 to 0 {\n"
      "  input %x : f32[] = batch \"0\" at []\n"
      "forward:\n"
      "  %a = aten.neg(%x) : f32[] at []\n"
      "  start %a.sent = send(%a) to 1\n"
      "  wait %a.sent\n"
      "}\n"
      "block @second ranks 1 to 1 {\n"
      "  input %y : f32[] = batch \"0\" at []\n"
      "forward:\n"
      "  start %a = receive : f32[] at [] from 0\n"
      "  %b = aten.neg(%y) : f32[] at []\n"
      "  %c = aten.neg(%b) : f32[] at []\n"
      "  wait %a\n"
      "  return loss = %c\n"
      "}\n",
      "p");
  const Timeline timeline = simulate(staged, cluster);
  verify(timeline);
  // Calls of 1 s; the message takes 0.75 s from 1 s on.
  EXPECT_EQ(step_seconds(timeline), 2 + 0.75);
}

TEST(Simulate, TellsWhereTheTimeGoes) {
  const Cluster cluster = parse_cluster(kCluster, "c");
  const StepSummary waits = summarize(
      program("  wait %g.sum\n"
              "  %a = aten.neg(%x) : f32[] at []\n"),
      cluster);
  EXPECT_EQ(waits.step_seconds, 3);
  EXPECT_EQ(waits.times.compute_seconds, 2);
  EXPECT_EQ(waits.times.communication_seconds, 1);
  EXPECT_EQ(waits.times.bubble_seconds, 0);
  EXPECT_EQ(waits.classes, 1);
  EXPECT_EQ(waits.peak_bytes, 12);
  // Rank 1 waits 2 s until rank 0 sends, then half a second and a latency.
  const Program staged = parse_program(
      "program @p on <pipe=2>\n"
      "block @first ranks 0 to 0 {\n"
      "  input %x : f32[] = batch \"0\" at []\n"
      "forward:\n"
      "  %a = aten.neg(%x) : f32[] at []\n"
      "  %b = aten.neg(%a) : f32[] at []\n"
      "  start %b.sent = send(%b) to 1\n"
      "  wait %b.sent\n"
      "}\n"
      "block @second ranks 1 to 1 {\n"
      "forward:\n"
      "  start %b = receive : f32[] at [] from 0\n"
      "  wait %b\n"
      "  %c = aten.neg(%b) : f32[] at []\n"
      "  return loss = %c\n"
      "}\n",
      "p");
  const StepSummary found = summarize(staged, cluster);
  EXPECT_EQ(found.classes, 2);
  EXPECT_EQ(found.step_seconds, 2 + 0.75 + 1);
  EXPECT_EQ(found.times.compute_seconds, (2 + 1) / 2.0);
  EXPECT_EQ(found.times.communication_seconds, 0.75);
  EXPECT_EQ(found.times.bubble_seconds, (1 + 2) / 2.0);
}

TEST(Simulate, RanksThatDoTheSameAreOne) {
  const std::string text =
      "program @p on <pipe=2, data=64>\n"
      "block @step ranks 0 to 127 {\n"
      "  input %x : f32[] = batch \"0\" at []\n"
      "forward:\n"
      "  %g = aten.neg(%x) : f32[] at [] +{data}\n"
      "  start %g.sum = all_reduce(%g) over {data}\n"
      "  wait %g.sum\n"
      "  return loss = %g.sum\n"
      "}\n";
  const Program program = parse_program(text, "p");
  Cluster cluster = parse_cluster(kCluster, "c");
  cluster.groups = {{"node", 8, {0.25, 8}}, {"pod", 16, {0.5, 8}}};
  const StepSummary found = summarize(program, cluster);
  EXPECT_EQ(found.classes, 1);
  const Timeline all = simulate(program, cluster);
  verify(all);
  EXPECT_EQ(all.events.size(), 128u * 3);
  EXPECT_EQ(step_seconds(all), found.step_seconds);
  // Groups of other links, or devices, are others: here 64 of 128 devices are
  // in nodes of their own.
  cluster.groups = {
      {"left", 64, {0.25, 8}},
      {"right", 64, {0.5, 8}, "cpu"},
      {"pod", 1, {1, 8}, "left", {{"right", 1}}}};
  EXPECT_EQ(summarize(program, cluster).classes, 2);
  cluster.groups = {{"pod", 128, {0.25, 8}}};
  EXPECT_EQ(summarize(program, cluster).classes, 1);
}

TEST(Simulate, NeedsADeviceForEveryRank) {
  Cluster cluster = parse_cluster(kCluster, "c");
  cluster.groups.clear();
  EXPECT_THROW(simulate(program("  wait %g.sum\n"), cluster), UserError);
}

}  // namespace
}  // namespace weft
