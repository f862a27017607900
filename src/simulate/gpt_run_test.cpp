// SPDX-License-Identifier: Apache-2.0
#include "simulate/gpt_run.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Cluster pod(const std::string& name) {
  return cluster_preset(name).value_or(Cluster{});
}

GptRun small_run() {
  GptRun run;
  run.global_batch = 16;
  run.micro_batch = 2;
  run.hidden = 2048;
  run.heads = 16;
  run.layers = 24;
  run.sequence = 1024;
  return run;
}

double step_of(const GptRun& run, const char* cluster = "8x8xA100-80G") {
  return gpt_seconds(run, pod(cluster)).step;
}

TEST(GptRun, TablesHaveNamedColumns) {
  const std::vector<GptRun> runs = parse_gpt_runs(
      "# where it is from\n"
      "gpus,global_batch,micro_batch,hidden,heads,layers,sequence,tensor,data,"
      "pipeline,iteration_ms,note\n"
      "8,16,1,2048,16,24,1024,2,2,2,12.5,fast\r\n",
      "t");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(rank_count(runs[0]), 8);
  EXPECT_EQ(runs[0].hidden, 2048);
  EXPECT_EQ(runs[0].stages_per_position, 1);
  EXPECT_DOUBLE_EQ(runs[0].measured_seconds, 0.0125);
}

std::string message_of(const std::string& row) {
  try {
    parse_gpt_runs(
        "gpus,global_batch,micro_batch,hidden,heads,layers,sequence,tensor,"
        "data,pipeline\n" +
            row,
        "t");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(GptRun, MistakesAreToldWithTheirLine) {
  EXPECT_EQ(
      message_of("8,16,1,2048,16,24,1024,2,2\n"),
      "t:2: the row has 9 cells, and the table 10 columns");
  EXPECT_EQ(
      message_of("8,16,1,2048,16,24,1024,2,two,2\n"),
      "t:2: data must be a whole number, from 1 to 1,000,000, found \"two\"");
  EXPECT_EQ(
      message_of("4,16,1,2048,16,24,1024,2,2,2\n"),
      "t:2: gpus is 4, and tensor x data x pipeline 8");
  EXPECT_EQ(
      message_of("8,16,3,2048,16,24,1024,2,2,2\n"),
      "t:2: data x micro_batch must divide global_batch: 6 and 16");
  EXPECT_EQ(message_of(""), "t: the table has no rows");
}

TEST(GptRun, MoreWorkTakesLonger) {
  GptRun run = small_run();
  const double base = step_of(run);
  run.layers = 48;
  EXPECT_NEAR(step_of(run) / base, 2, 0.2);
  run = small_run();
  run.global_batch = 32;
  EXPECT_NEAR(step_of(run) / base, 2, 0.1);
  // Twice the ranks for twice the batch: as long, and the gradients.
  run.data = 2;
  EXPECT_GT(step_of(run), base);
  EXPECT_LT(step_of(run), 1.1 * base);
}

TEST(GptRun, StagesWaitForEachOther) {
  GptRun run = small_run();
  EXPECT_EQ(gpt_seconds(run, pod("8xA100-80G")).bubble, 0);
  run.pipeline = 4;
  const GptSeconds found = gpt_seconds(run, pod("8xA100-80G"));
  // 3 of 8 + 3 turns, and what the last stage takes longer for its head.
  EXPECT_GT(found.bubble / found.step, 3.0 / 11);
  EXPECT_LT(found.bubble / found.step, 5.0 / 11);
  run.stages_per_position = 3;
  EXPECT_LT(gpt_seconds(run, pod("8xA100-80G")).bubble, 0.7 * found.bubble);
}

TEST(GptRun, SlowLinksAreFelt) {
  GptRun run = small_run();
  run.tensor = 16;
  const double across = step_of(run);
  EXPECT_LT(across, step_of(run, "8x8xA100-80G+1xHDR"));
  run.tensor = 8;
  EXPECT_LT(step_of(run), across);
  EXPECT_THROW(gpt_seconds(run, pod("4xA100-80G")), UserError);
}

}  // namespace
}  // namespace weft
