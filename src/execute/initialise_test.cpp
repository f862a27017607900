// SPDX-License-Identifier: Apache-2.0
#include "execute/initialise.h"

#include "base/error.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace weft {
namespace {

const char* const kText = R"(graph @g
constant %two : f32[2] = hex "0000004000000040"
func @init {
  input %c : f32[2] = constant "two"
init:
  %a = aten.randn([64, 2], rng=0) : f32[64, 2]
  %e = aten.empty.memory_format([64, 2]) : f32[64, 2]
  %b = aten.uniform(%e, -1.0, 1.0, rng=1) : f32[64, 2]
  %scaled = aten.mul.Tensor(%b, %c) : f32[64, 2]
  %t = weft.trunc_normal(%e, 0.0, 0.02, -2.0, 2.0, rng=2) : f32[64, 2]
  return parameter "a" = %a
  return parameter "b" = %scaled
  return buffer "t" = %t
}
func @step {}
)";

TEST(Initialise, FollowsFromTheSeed) {
  const Graph graph = parse_graph(kText, "t");
  const std::vector<at::Tensor> first = initialise(graph, 1);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_LE(first[1].abs().max().item<float>(), 2.0F);
  EXPECT_GT(first[1].abs().max().item<float>(), 1.5F);
  EXPECT_LT(first[2].abs().max().item<float>(), 0.1F);
  const std::vector<at::Tensor> again = initialise(graph, 1);
  const std::vector<at::Tensor> other = initialise(graph, 2);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(first[i].equal(again[i])) << i;
    EXPECT_FALSE(first[i].equal(other[i])) << i;
  }
}

TEST(Initialise, APieceIsAsInTheWhole) {
  const Graph graph = parse_graph(kText, "t");
  const std::vector<at::Tensor> whole = initialise(graph, 1);
  const Initialiser init(graph, 1);
  const std::vector<Piece> box = {{5, 20, 64}, {1, 1, 2}};
  const std::vector<Output>& outputs = find_function(graph, "init")->outputs;
  for (size_t i = 0; i < whole.size(); ++i) {
    const at::Tensor piece = at::empty({20, 1});
    init.fill(outputs[i].kind, outputs[i].key, box, piece);
    EXPECT_TRUE(piece.equal(whole[i].narrow(0, 5, 20).narrow(1, 1, 1))) << i;
  }
  EXPECT_THROW(
      init.fill(OutputKind::Parameter, "t", box, at::empty({20, 1})),
      UserError);
}

TEST(Initialise, NeedsAnInit) {
  const Graph graph = parse_graph("graph @g func @step {}", "t");
  EXPECT_THROW(initialise(graph, 1), UserError);
}

}  // namespace
}  // namespace weft
