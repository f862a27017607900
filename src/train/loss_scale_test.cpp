// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scale.h"

#include "base/error.h"

#include <cmath>
#include <gtest/gtest.h>

namespace weft {
namespace {

// The scales of torch.amp.GradScaler(init_scale=8, growth_interval=3) over the
// same steps.
TEST(LossScale, GoesAsTorchs) {
  LossScaleOptions options;
  options.initial = 8;
  options.growth_interval = 3;
  LossScale scale(options);
  const std::vector<std::pair<bool, double>> steps = {
      {true, 8},
      {true, 8},
      {true, 16},
      {true, 16},
      {false, 8},
      {true, 8},
      {true, 8},
      {true, 16},
      {false, 8},
      {false, 4}};
  for (const auto& [is_finite, expected] : steps) {
    scale.update(is_finite);
    EXPECT_EQ(scale.scale(), expected);
  }
}

TEST(LossScale, NeverGrowsToInfinity) {
  LossScaleOptions options;
  options.initial = 3e38;
  options.growth_interval = 1;
  LossScale scale(options);
  scale.update(true);
  EXPECT_EQ(scale.scale(), static_cast<double>(3e38F));
}

TEST(LossScale, GoesOnAfterRestore) {
  LossScaleOptions options;
  options.growth_interval = 3;
  LossScale before(options);
  before.update(false);
  before.update(true);
  before.update(true);
  LossScale after(options);
  after.restore(before.print_state(), "checkpoint");
  EXPECT_EQ(after.print_state(), "scale=32768.0 good_steps=2");
  before.update(true);
  after.update(true);
  EXPECT_EQ(after.scale(), 65536);
  EXPECT_EQ(after.print_state(), before.print_state());
  EXPECT_THROW(after.restore("scale=0 good_steps=1", "file"), UserError);
  EXPECT_THROW(after.restore("size=3", "file"), UserError);
}

TEST(LossScale, RejectsOptionsThatMakeNoSense) {
  EXPECT_THROW(LossScale({.initial = 0}), UserError);
  EXPECT_THROW(LossScale({.growth_factor = 1}), UserError);
  EXPECT_THROW(LossScale({.backoff_factor = 1}), UserError);
  EXPECT_THROW(LossScale({.growth_interval = 0}), UserError);
}

}  // namespace
}  // namespace weft
