// SPDX-License-Identifier: Apache-2.0
#include "graph/mesh.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::string verify_error(const std::string& text) {
  try {
    verify(parse_mesh(text));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Mesh, PrintsAndParses) {
  const Mesh mesh{{{"data", 2}, {"tensor", 4}}};
  EXPECT_EQ(print(mesh), "<data=2, tensor=4>");
  for (const Mesh& any : {mesh, Mesh{}, Mesh{{{"x", 1}}}}) {
    EXPECT_EQ(parse_mesh(print(any)), any);
    EXPECT_NO_THROW(verify(any));
  }
}

TEST(Mesh, TheLastAxisVariesFastest) {
  const Mesh mesh = parse_mesh("<data=2, tensor=4>");
  EXPECT_EQ(rank_count(mesh), 8);
  EXPECT_EQ(coordinates(mesh, 0), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(coordinates(mesh, 1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(coordinates(mesh, 6), (std::vector<int64_t>{1, 2}));
  EXPECT_THROW(coordinates(mesh, 8), InternalError);
  EXPECT_EQ(rank_count(Mesh{}), 1);
  EXPECT_EQ(find_axis(mesh, "tensor"), 1);
  EXPECT_EQ(find_axis(mesh, "pipe"), -1);
}

TEST(Mesh, ErrorsNameTheAxis) {
  EXPECT_EQ(verify_error("<a=2, a=3>"), "[mesh] two axes have the name a");
  EXPECT_EQ(
      verify_error("<a=0>"),
      "<mesh>:1:4: the size of axis a must be a whole number, from 1 to "
      "1,000,000, found 0");
  EXPECT_EQ(
      verify_error("<a=1000, b=1000, c=2>"),
      "<mesh>:1:18: with axis c the mesh has 2,000,000 points, and the most "
      "are 1,000,000");
  EXPECT_EQ(
      verify_error("<a=2"),
      "<mesh>:1:5: expected '>', found the end of the text");
  EXPECT_EQ(
      verify_error("<a=2> x"),
      "<mesh>:1:7: expected the end of the mesh, found \"x\"");
  EXPECT_THROW(verify(Mesh{{{"a b", 2}}}), UserError);
  EXPECT_THROW(verify(Mesh{{{"a", 0}}}), UserError);
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_THROW(verify(Mesh{{{"a", kHuge}, {"b", 4}}}), UserError);
}

}  // namespace
}  // namespace weft
