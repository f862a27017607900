// SPDX-License-Identifier: Apache-2.0
#include "lower/halo.h"

#include "graph/graph.h"
#include "ops/op_def.h"

#include <gtest/gtest.h>
#include <string>

namespace weft {
namespace {

// One node of two operands or one, and how its windows are split.
struct Case {
  Graph graph;
  Mesh mesh;
  Rule rule;
  Assignment assignment;

  Case(const std::string& node, const std::string& on, std::vector<Axes> axes)
      : graph(parse_graph(
            "graph @g\nfunc @step {\n"
            "  input %x : f32[1, 4, 16, 8] = batch \"0\"\n"
            "  input %w : f32[4, 4, 3, 3] = parameter \"w\" trained\n"
            "forward:\n" +
                node + "\n  return loss = %y\n}\n",
            "test")),
        mesh(parse_mesh(on)),
        rule(rule_of(step_of(graph), step_of(graph).nodes.front())) {
    assignment.factors.resize(rule.factors.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      const int factor = find_factor(rule, "s" + std::to_string(i));
      const auto f = static_cast<size_t>(factor);
      if (!axes[i].empty()) {
        assignment.factors[f] =
            canonical(split_over(axes[i]), rule.factors[f].size, mesh);
      }
    }
  }

  const TensorType& image() const { return step_of(graph).values[0].type; }

  Halo halo() const {
    return {mesh, rule, assignment, {.in_result = false, .tensor = 0}, image()};
  }

  double bytes() const {
    return halo_bytes(
        mesh, rule, assignment, {.in_result = false, .tensor = 0}, image());
  }
};

constexpr const char* kConvolution =
    "  %y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, "
    "[0, 0], 1) : f32[1, 4, 16, 8]";
constexpr const char* kStrided =
    "  %y = aten.convolution(%x, %w, none, [2, 2], [1, 1], [1, 1], false, "
    "[0, 0], 1) : f32[1, 4, 8, 4]";

TEST(Halo, ReachesOneRowBeyondABlock) {
  const Case one(kConvolution, "<h=4>", {{"h"}});
  const Halo halo = one.halo();
  EXPECT_EQ(halo.own(1)[2].start, 4);
  EXPECT_EQ(halo.own(1)[2].size, 4);
  EXPECT_EQ(halo.reach(1)[2].start, 3);
  EXPECT_EQ(halo.reach(1)[2].size, 6);
  // Padding.
  EXPECT_EQ(halo.reach(0)[2].start, -1);
  const double row = 4 * 4 * 8;
  EXPECT_EQ(halo.bytes(0), row);
  EXPECT_EQ(halo.bytes(1), 2 * row);
  EXPECT_EQ(one.bytes(), 2 * row);
}

TEST(Halo, HasCorners) {
  const Case both(kConvolution, "<h=2, w=2>", {{"h"}, {"w"}});
  EXPECT_EQ(both.bytes(), 4 * 4 * (8 + 4 + 1));
  EXPECT_EQ(both.halo().group(0), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Halo, FollowsTheStride) {
  const Case one(kStrided, "<h=4>", {{"h"}});
  // Steps 2 and 3 touch rows 3 to 7, and 4 to 7 are the rank's own.
  EXPECT_EQ(one.halo().reach(1)[2].start, 3);
  EXPECT_EQ(one.halo().reach(1)[2].size, 5);
  EXPECT_EQ(one.bytes(), 4 * 4 * 8);
}

TEST(Halo, IsNoneWhereWindowsAreWhole) {
  const Case one(kConvolution, "<h=4>", {});
  EXPECT_FALSE(splits_windows(one.rule, one.assignment));
  EXPECT_TRUE(one.halo().is_whole());
  EXPECT_EQ(one.bytes(), 0);
}

TEST(Halo, BoxesMeet) {
  const Box a = {{0, 4, 8}, {2, 4, 8}};
  const Box b = {{3, 4, 8}, {0, 3, 8}};
  EXPECT_EQ(sizes_of(intersection(a, b)), (Dims{1, 1}));
  EXPECT_TRUE(is_empty(intersection(a, {{4, 4, 8}, {0, 8, 8}})));
}

}  // namespace
}  // namespace weft
