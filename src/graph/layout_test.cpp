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
       {"[]",
        "[-]",
        "[data, -, tensor*x] +{y}",
        "[] +{x, y}",
        "[-, -]",
        "[(3 tensor:64), data:5]",
        "[(data:4 sequence:128), -]",
        "[(8), -]"}) {
    EXPECT_EQ(print(parse_layout(text)), text);
  }
  EXPECT_EQ(print(replicated(2)), "[-, -]");
  EXPECT_EQ(parse_layout(" [ a*b ,-] + { c } ").partial.size(), 1U);
}

TEST(Layout, TheSamePiecesAreWrittenInOneWay) {
  const Mesh mesh = parse_mesh("<data=2, tensor=4>");
  const auto written = [&](const std::string& text, const std::string& type) {
    return print(canonical(parse_layout(text), parse_type(type), mesh));
  };
  EXPECT_EQ(written("[(tensor:8 16)]", "f32[128]"), "[tensor]");
  EXPECT_EQ(written("[(2 4 tensor)]", "f32[128]"), "[(8 tensor:16)]");
  EXPECT_EQ(written("[(data:2 tensor:8)]", "f32[16]"), "[data*tensor]");
  EXPECT_EQ(written("[(data:4 tensor:8)]", "f32[32]"), "[(data:4 tensor:8)]");
  EXPECT_EQ(written("[tensor, -]", "f32[6, 2]"), "[tensor:6, -]");
  EXPECT_EQ(written("[(tensor 16)]", "f32[96]"), "[(tensor:6 16)]");
  EXPECT_EQ(written("[(2 3 1)]", "f32[6]"), "[-]");
  EXPECT_EQ(written("[(0 tensor:16)]", "f32[0]"), "[-]");
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
  EXPECT_EQ(
      verify_error("[(3 tensor), -]"),
      "[layout] [(3 tensor), -]: the levels of dim 0 do not make up its size,"
      " 8");
  EXPECT_THROW(parse_layout("[-] +{}"), UserError);
  EXPECT_THROW(parse_layout("[-"), UserError);
}

}  // namespace
}  // namespace weft
