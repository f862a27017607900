// SPDX-License-Identifier: Apache-2.0
#include "cli/figures.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Figures, TheMedianIsInTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

TEST(Figures, ThreeAreKept) {
  EXPECT_EQ(three_figures(0), 0);
  EXPECT_EQ(three_figures(1.23456e-5), 1.23e-5);
  EXPECT_EQ(three_figures(9.996e10), 1e11);
  EXPECT_EQ(three_figures(-0.55555), -0.556);
}

TEST(Figures, NoTimeIsNoDivisionByZero) {
  EXPECT_EQ(per_second(6, 2), 3);
  EXPECT_GT(per_second(1, 0), 1e11);
}

}  // namespace
}  // namespace weft
