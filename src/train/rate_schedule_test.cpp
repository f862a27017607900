// SPDX-License-Identifier: Apache-2.0
#include "train/rate_schedule.h"

#include "base/error.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numbers>

namespace weft {
namespace {

TEST(RateSchedule, PrintsAndParses) {
  for (const char* text :
       {"constant",
        "constant warmup=10",
        "linear warmup=100 steps=1000",
        "cosine steps=50",
        "cosine warmup=100 steps=1000 floor=0.1"}) {
    EXPECT_EQ(print(parse_rate_schedule(text, "<text>")), text);
  }
  const RateSchedule any = {Curve::Cosine, 3, 12345, 1.0 / 3};
  EXPECT_EQ(parse_rate_schedule(print(any), "<text>"), any);
  EXPECT_EQ(parse_rate_schedule("linear steps=2 floor=1", "<text>").floor, 1);
}

TEST(RateSchedule, MistakesHaveAPlace) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_rate_schedule(text, "<text>");
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("step").find("<text>:1:1"), std::string::npos);
  EXPECT_NE(message("step").find("cosine"), std::string::npos);
  EXPECT_NE(message("cosine").find("needs steps=N"), std::string::npos);
  EXPECT_NE(
      message("linear steps=10 warmup=11").find("longer"), std::string::npos);
  EXPECT_NE(
      message("cosine steps=10 floor=2").find("<text>:1:23"),
      std::string::npos);
  EXPECT_NE(message("constant warmup=-1").find("0 or more"), std::string::npos);
  EXPECT_NE(message("constant speed=1").find("warmup="), std::string::npos);
}

TEST(RateSchedule, WarmsUpFromNothing) {
  const RateSchedule schedule =
      parse_rate_schedule("constant warmup=4", "<text>");
  EXPECT_EQ(factor(schedule, 0), 0);
  EXPECT_EQ(factor(schedule, 1), 0.25);
  EXPECT_EQ(factor(schedule, 4), 1);
  EXPECT_EQ(factor(schedule, 1'000'000), 1);
}

TEST(RateSchedule, LinearReachesItsFloorAndStays) {
  const RateSchedule schedule =
      parse_rate_schedule("linear warmup=2 steps=12 floor=0.5", "<text>");
  EXPECT_EQ(factor(schedule, 2), 1);
  EXPECT_EQ(factor(schedule, 7), 0.75);
  EXPECT_EQ(factor(schedule, 12), 0.5);
  EXPECT_EQ(factor(schedule, 100), 0.5);
}

// The closed form of torch.optim.lr_scheduler.CosineAnnealingLR, whose rates
// are eta_min + (base - eta_min) * (1 + cos(pi * step / T_max)) / 2.
TEST(RateSchedule, CosineIsThatOfTorch) {
  const RateSchedule schedule =
      parse_rate_schedule("cosine steps=100 floor=0.1", "-");
  const double base = 0.3;
  for (int64_t step = 0; step <= 100; ++step) {
    const double theirs =
        0.1 * base +
        (base - 0.1 * base) *
            (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 100)) /
            2;
    EXPECT_NEAR(base * factor(schedule, step), theirs, 1e-16);
  }
}

}  // namespace
}  // namespace weft
