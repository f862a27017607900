// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "train/loss_scale.h"
#include "train/rate_schedule.h"

namespace weft {
namespace {

TEST(TrainNumbers, OfARateSchedule) {
  expect_bounded_numbers(
      "cosine warmup=10 steps=100 floor=0.1",
      {"s:1:"},
      [](const std::string& text) {
        const RateSchedule schedule = parse_rate_schedule(text, "s");
        EXPECT_LE(factor(schedule, 50), 1);
      });
}

TEST(TrainNumbers, OfALossScale) {
  LossScale scale(LossScaleOptions{});
  expect_bounded_numbers(
      "scale=1024.0 good_steps=7", {"s:1:"}, [&](const std::string& text) {
        scale.restore(text, "s");
      });
}

}  // namespace
}  // namespace weft
