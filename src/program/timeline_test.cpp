// SPDX-License-Identifier: Apache-2.0
#include "program/timeline.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr const char* kTimeline = R"(timeline @mlp
0 compute 0 0.0 0.5 live 64 "%h = aten.mm"
0 communication 1 0.5 0.75 live 64 "start %g.sum = all_reduce"
0 compute 2 0.5 0.75 live 32 "wait %g.sum"
1 compute 0 0.0 0.25 live 128 "%h = aten.mm"
)";

TEST(Timeline, PrintsWhatItParsed) {
  const Timeline timeline = parse_timeline(kTimeline, "t");
  verify(timeline);
  EXPECT_EQ(print(timeline), kTimeline);
  EXPECT_EQ(parse_timeline(print(timeline), "again"), timeline);
  EXPECT_EQ(step_seconds(timeline), 0.75);
  EXPECT_EQ(peak_bytes(timeline), 128);
}

TEST(Timeline, ComputeEventsFollowOneAnother) {
  Timeline timeline = parse_timeline(kTimeline, "t");
  timeline.events[2].start_seconds = 0.4;
  EXPECT_THROW(verify(timeline), UserError);
  timeline = parse_timeline(kTimeline, "t");
  timeline.events[1].end_seconds = 0.1;
  EXPECT_THROW(verify(timeline), UserError);
}

TEST(Timeline, OnlyTimesMayDiffer) {
  const Timeline predicted = parse_timeline(kTimeline, "t");
  Timeline measured = predicted;
  measured.events[0].end_seconds = 0.4;
  EXPECT_EQ(compare(predicted, measured).difference, "");
  measured.events[2].live_bytes = 33;
  EXPECT_EQ(
      compare(predicted, measured).difference,
      "event 2: predicted rank 0, compute, instruction 2 (wait %g.sum), 32 "
      "live bytes; measured rank 0, compute, instruction 2 (wait %g.sum), 33 "
      "live bytes");
  measured.events.pop_back();
  measured.events[2].live_bytes = 32;
  EXPECT_EQ(
      compare(predicted, measured).difference,
      "predicted 4 events, measured 3");
}

}  // namespace
}  // namespace weft
