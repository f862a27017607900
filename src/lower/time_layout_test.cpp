// SPDX-License-Identifier: Apache-2.0
#include "lower/time_layout.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

const Mesh kTime = parse_mesh("<micro=2>");
const Mesh kMesh = parse_mesh("<data=2, tensor=2, micro=2>");

std::string without(const std::string& layout, int64_t size) {
  return print(without_time(
      parse_layout(layout), make_type(DType::F32, {size}), kMesh, kTime));
}

TEST(TimeLayout, WhatARankHasAtAllPoints) {
  EXPECT_EQ(without("[data*micro]", 8), "[data]");
  EXPECT_EQ(without("[micro]", 8), "[-]");
  // Half of each micro-batch.
  EXPECT_EQ(without("[micro*data]", 8), "[(2 data:4)]");
  EXPECT_EQ(without("[data*micro*tensor]", 16), "[(data:4 tensor:4)]");
  EXPECT_EQ(
      without("[(micro*data:4 2)] +{tensor}", 8), "[(2 data:4)] +{tensor}");
}

TEST(TimeLayout, WhatDoesNotDivideIsNoLayout) {
  // As one level it is.
  EXPECT_EQ(without("[data*micro:7]", 7), "[data:7]");
  EXPECT_THROW(without("[micro*data:7]", 7), UserError);
}

}  // namespace
}  // namespace weft
