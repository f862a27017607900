// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr const char* kGraph = R"(graph @mlp

func @step {
  input %batch.0 : f32[6, 8] = batch "0"
  input %fc.weight : f32[3, 8] = parameter "fc.weight"
forward:
  %fc/t = aten.t(%fc.weight) : f32[8, 3]{1, 8}
  %fc/mm = aten.mm(%batch.0, %fc/t) : f32[6, 3]
  return extra "0" = %fc/mm
}
)";

std::string message_of(const std::string& text) {
  try {
    verify(parse_plan(text, "p"), parse_graph(kGraph, "g"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Plan, PrintsWhatItParsed) {
  const std::string text =
      "plan @mlp on <data=2, tensor=3> {\n"
      "  %batch.0 [data, -]\n"
      "  %fc/* [-, tensor] +{data}\n"
      "}\n";
  const Plan plan = parse_plan(text, "p");
  EXPECT_EQ(print(plan), text);
  EXPECT_EQ(parse_plan(print(plan), "again"), plan);
}

TEST(Plan, StarsMatchAnyRun) {
  EXPECT_TRUE(matches("blocks.*/mm", "blocks.12/mm"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbbYc"));
  EXPECT_FALSE(matches("a*b", "abc"));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Plan, TheLastMatchCounts) {
  const Plan plan = parse_plan(
      "plan @mlp on <data=2> { %fc/* [-, -] %fc/mm [data, -] }", "p");
  EXPECT_EQ(print(decision_for(plan, "fc/mm")->layout), "[data, -]");
  EXPECT_EQ(print(decision_for(plan, "fc/t")->layout), "[-, -]");
  EXPECT_EQ(decision_for(plan, "x"), nullptr);
}

TEST(Plan, MessagesNameDecisionAndValue) {
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %batch.0 [data, -] }"), "no error");
  EXPECT_EQ(
      message_of("plan @gpt on <data=2> { }"),
      "the plan is for graph @gpt, and this is graph @mlp");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %fd/* [data, -] }"),
      "plan @mlp: %fd/* [data, -]: no value of the step has such a name");
  EXPECT_EQ(
      message_of("plan @mlp on <data=8> { %batch.* [data, -] }"),
      "plan @mlp: %batch.* [data, -] (for %batch.0): dim 0 of f32[6, 8] is "
      "too small for 8 pieces");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %batch.0 [x, -] }"),
      "plan @mlp: %batch.0 [x, -]: [layout] [x, -] names the axis 'x', which "
      "is not on the mesh <data=2>");
}

}  // namespace
}  // namespace weft
