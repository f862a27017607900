// SPDX-License-Identifier: Apache-2.0
#include "lower/exchanged_values.h"

#include "lower/lower.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// Two products, the second of which sums over what the first makes.
constexpr const char* kGraph = R"(graph @pair

func @step {
  input %x : f32[8, 16] = batch "0"
  input %l.w1 : f32[32, 16] = parameter "l.w1" trained
  input %l.w2 : f32[16, 32] = parameter "l.w2" trained
forward:
  %l/t = aten.t(%l.w1) : f32[16, 32]{1, 16}
  %l/mm = aten.mm(%x, %l/t) : f32[8, 32]
  %l/gelu = aten.gelu(%l/mm) : f32[8, 32]
  %l/t.1 = aten.t(%l.w2) : f32[32, 16]{1, 32}
  %l/mm.1 = aten.mm(%l/gelu, %l/t.1) : f32[8, 16]
  %l/gelu.1 = aten.gelu(%l/mm.1) : f32[8, 16]
  %sq = aten.mul.Tensor(%l/gelu.1, %l/gelu.1) : f32[8, 16]
  %loss = aten.sum(%sq) : f32[]
backward:
  %seed = aten.ones_like(%loss) : f32[]
  %d = aten.expand(%seed, [8, 16]) : f32[8, 16]{0, 0}
  %d.1 = aten.mul.Tensor(%d, %l/gelu.1) : f32[8, 16]
  %l/gelu_backward = aten.gelu_backward(%d.1, %l/mm.1) : f32[8, 16]
  %l/t.2 = aten.t(%l/gelu) : f32[32, 8]{1, 32}
  %dw2.t = aten.mm(%l/t.2, %l/gelu_backward) : f32[32, 16]
  %dw2 = aten.t(%dw2.t) : f32[16, 32]{1, 16}
  %dh = aten.mm(%l/gelu_backward, %l.w2) : f32[8, 32]
  %dg = aten.gelu_backward(%dh, %l/mm) : f32[8, 32]
  %x.t = aten.t(%x) : f32[16, 8]{1, 16}
  %dw1.t = aten.mm(%x.t, %dg) : f32[16, 32]
  %dw1 = aten.t(%dw1.t) : f32[32, 16]{1, 32}
  return loss = %loss
  return gradient "l.w1" = %dw1
  return gradient "l.w2" = %dw2
}
)";

// How often the text has the word.
size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos;
       at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

std::string lowered(const std::string& lines) {
  const Graph graph = parse_graph(kGraph, "g");
  const Plan plan = parse_plan(
      "plan @pair on <tensor=2> {\n" + lines +
          "  %l.w1 [tensor, -]\n  %l.w2 [-, tensor]\n}\n",
      "p");
  return print(lower(graph, plan));
}

TEST(ExchangedValues, ARecomputationRepeatsNoCollective) {
  const std::string kept = lowered("");
  EXPECT_EQ(count(kept, "= all_reduce"), 1U);
  EXPECT_EQ(count(kept, ".again = "), 0U);
  // What is summed over ranks is kept, all else is made again.
  const std::string again = lowered("  recompute %l/*\n");
  EXPECT_EQ(count(again, "= all_reduce"), 1U);
  EXPECT_EQ(count(again, "%l/mm.again = "), 1U);
  EXPECT_EQ(count(again, "%l/gelu.1.again = "), 1U);
  EXPECT_EQ(count(again, "%l/mm.1.again = "), 0U);
}

TEST(ExchangedValues, UnlessThePlanSaysSo) {
  const std::string again =
      lowered("  recompute %l/*\n  recompute collectives\n");
  EXPECT_EQ(count(again, "= all_reduce"), 2U);
  EXPECT_EQ(count(again, "%l/mm.1.again = "), 1U);
}

}  // namespace
}  // namespace weft
