// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "simulate/gpt_run.h"

#include <cmath>

namespace weft {
namespace {

TEST(GptNumbers, OfATable) {
  const Cluster cluster = load_cluster("16x8xA100-80G");
  expect_bounded_numbers(
      "global_batch,micro_batch,hidden,heads,layers,sequence,tensor,data,"
      "pipeline,vocabulary,stages_per_position,iteration_ms\n"
      "16,1,2048,16,24,1024,2,2,2,50257,2,12.5\n",
      {"t:2: ", "a run on"},
      [&](const std::string& text) {
        for (const GptRun& run : parse_gpt_runs(text, "t")) {
          EXPECT_TRUE(std::isfinite(gpt_seconds(run, cluster).step)) << text;
        }
      });
}

// Numbers that are each none too large.
TEST(GptNumbers, OfLargeSteps) {
  const std::string names =
      "global_batch,micro_batch,hidden,heads,layers,sequence,tensor,data,"
      "pipeline\n";
  for (const char* row :
       {"1000000000,1,2048,16,100000,1024,1,1,1",
        "1000000000,1000000000,1000000000,1,1,1000000000,1,1,1",
        "1,1,1000000000,1,100000,1,1,1,1",
        "1,1,2048,16,24,1024,16,1000000,24"}) {
    EXPECT_THROW(parse_gpt_runs(names + row, "t"), UserError) << row;
  }
}

}  // namespace
}  // namespace weft
