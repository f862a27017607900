// SPDX-License-Identifier: Apache-2.0
#include "graph/layout.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::string verify_error(const std::string& text) {
  const Mesh mesh = parse_mesh("<data=2, tensor=4>");
  try {
    verify(parse_layout(text), parse_type("f32[8, 16]"), mesh);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Layout, PrintsAndParses) {
  for (const std::string text :
       {"[]", "[-]", "[data, -, tensor*x] +{y}", "[] +{x, y}", "[-, -]"}) {
    EXPECT_EQ(print(parse_layout(text)), text);
  }
  EXPECT_EQ(print(replicated(2)), "[-, -]");
  EXPECT_EQ(parse_layout(" [ a*b ,-] + { c } ").partial.size(), 1U);
}

TEST(Layout, ErrorsNameTheLayoutAndTheAxis) {
  EXPECT_EQ(verify_error("[data, tensor]"), "no error");
  EXPECT_EQ(verify_error("[data*tensor, -]"), "no error");
  EXPECT_EQ(
      verify_error("[data]"),
      "[layout] [data] has 1 dims, the value has 2: f32[8, 16]");
  EXPECT_EQ(
      verify_error("[pipe, -]"),
      "[layout] [pipe, -] names the axis 'pipe', which is not on the mesh"
      " <data=2, tensor=4>");
  EXPECT_EQ(
      verify_error("[data, -] +{data}"),
      "[layout] [data, -] +{data} uses the axis data twice");
  EXPECT_EQ(
      verify_error("[data, *]"), "<layout>:1:8: expected a word, found \"*\"");
  EXPECT_THROW(parse_layout("[-] +{}"), UserError);
  EXPECT_THROW(parse_layout("[-"), UserError);
}

}  // namespace
}  // namespace weft
