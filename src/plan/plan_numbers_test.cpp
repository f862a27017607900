// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "plan/parallel.h"
#include "plan/plan.h"
#include "plan/rank_names.h"
#include "plan/schedule.h"

namespace weft {
namespace {

constexpr const char* kGraph = R"(graph @mlp

func @step {
  input %x : f32[12, 8] = batch "x"
  input %up : f32[8, 4] = parameter "up" trained
  input %down : f32[4, 8] = parameter "down" trained
forward:
  %mm = aten.mm(%x, %up) : f32[12, 4]
  %gelu = aten.gelu(%mm) : f32[12, 4]
  %out = aten.mm(%gelu, %down) : f32[12, 8]
  %loss = aten.sum(%out) : f32[]
  return loss = %loss
}
)";

// All that is done with a plan before it is lowered.
void use(const Plan& plan, const Graph& graph) {
  verify_schedule(plan);
  EXPECT_GE(rank_count(plan), 1);
  verify(plan, graph);
  EXPECT_EQ(parse_plan(print(plan), "again"), plan);
  EXPECT_GE(rank_names(plan).size(), 0U);
}

TEST(PlanNumbers, OfAPlan) {
  const Graph graph = parse_graph(kGraph, "g");
  for (const char* text :
       {"plan @mlp on <data=2, tensor=2> in <micro=3> {\n"
        "  seats 2\n"
        "  %x [data*micro, -]\n"
        "  %up [(data:4 2), tensor]\n"
        "}\n",
        "plan @mlp on <pipeline=2, data=2> in <micro=2> {\n"
        "  stage %gelu on <data=3>\n"
        "  keep 1 %up\n"
        "  %x [micro*data, -]\n"
        "}\n",
        "plan @mlp on <pipeline=2, data=2> in <micro=2> {\n"
        "  schedule @mine {\n"
        "    stages 2\n"
        "    micro_batches 2\n"
        "    0: F0 F1 B0 B1\n"
        "    1: F0 B0 F1 B1\n"
        "  }\n"
        "  stage %gelu on <data=3>\n"
        "  %x [micro*data, -]\n"
        "}\n"}) {
    expect_bounded_numbers(text, {"p:"}, [&](const std::string& changed) {
      use(parse_plan(changed, "p"), graph);
    });
  }
}

TEST(PlanNumbers, OfWords) {
  const Graph graph = parse_graph(kGraph, "g");
  for (const char* text :
       {"data=2,tensor=2,zero=1,shard=2",
        "tensor=2x2",
        "data=2,pipeline=2,stages=2,micro-batches=3",
        "context=2",
        "ulysses=2",
        "expert=2,seats=2",
        "spatial=2x2",
        "slices=2",
        "slices=3:2:1"}) {
    expect_bounded_numbers(text, {"words: "}, [](const std::string& changed) {
      const Parallel words = parse_parallel(changed, "words");
      EXPECT_GE(rank_count(words), 1);
      EXPECT_GE(stage_count(words), 1);
      EXPECT_EQ(parse_parallel(print(words), "again"), words);
    });
  }
}

// The largest numbers that words may have, together.
TEST(PlanNumbers, ProductsOfWords) {
  for (const char* text :
       {"data=4611686018427387904,tensor=4",
        "data=1000000,tensor=1000000x1000000x1000000",
        "spatial=1000000x1000000x1000000,data=1000000,pipeline=1000000",
        "data=1000,tensor=1001"}) {
    EXPECT_THROW(parse_parallel(text, "words"), UserError) << text;
  }
}

TEST(PlanNumbers, OfASchedule) {
  expect_bounded_numbers(
      "schedule @mine {\n"
      "  stages 2\n"
      "  micro_batches 2\n"
      "  slices 2\n"
      "  0: F0.0 F0.1 F1.0 F1.1 B0.1 B0.0 B1.1 B1.0\n"
      "  1: F0.0@1 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0\n"
      "}\n",
      {"s:"},
      [](const std::string& text) {
        const Schedule schedule = parse_schedule(text, "s");
        verify(schedule);
        EXPECT_EQ(parse_schedule(print(schedule), "again"), schedule);
      });
}

}  // namespace
}  // namespace weft
