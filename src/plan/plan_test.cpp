// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include "base/error.h"
#include "plan/forward_plan.h"
#include "plan/pattern_index.h"
#include "plan/rank_names.h"

#include <filesystem>
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

TEST(Plan, HasNoMorePartsInTimeThanTheBatch) {
  EXPECT_EQ(message_of("plan @mlp on <> in <micro=8> {}"), "no error");
  EXPECT_EQ(
      message_of("plan @mlp on <> in <micro=9> {}"),
      "p:1: 'in' asks for 9 parts along micro, and no dim of the batch has "
      "more than 8 elements; ask for fewer");
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
  const PatternIndex decisions(plan.decisions);
  EXPECT_EQ(print(decision_for(plan, decisions, "fc/mm")->layout), "[data, -]");
  EXPECT_EQ(print(decision_for(plan, decisions, "fc/t")->layout), "[-, -]");
  EXPECT_EQ(decision_for(plan, decisions, "x"), nullptr);
}

TEST(Plan, SettingsStandBeforeDecisions) {
  const std::string text =
      "plan @mlp on <pipeline=2, data=2> in <micro=4> {\n"
      "  local batch_norm\n"
      "  seats 2\n"
      "  schedule zb-h1\n"
      "  stage %fc/relu\n"
      "  recompute cheap\n"
      "  recompute %fc/*\n"
      "  recompute collectives\n"
      "  %fc.weight [data, -] compute [-, -]\n"
      "}\n";
  const Plan plan = parse_plan(text, "p");
  EXPECT_EQ(print(plan), text);
  EXPECT_EQ(rank_count(plan.time), 4);
  EXPECT_EQ(plan.schedule, "zb-h1");
  EXPECT_EQ(stage_count(plan), 2);
  EXPECT_EQ(print(stage_mesh(plan.mesh)), "<data=2>");
  EXPECT_TRUE(PatternIndex(plan.recompute).has_match("fc/mm"));
  EXPECT_FALSE(PatternIndex(plan.recompute).has_match("fc.weight"));
  EXPECT_EQ(print(compute_layout(plan.decisions.at(0))), "[-, -]");
  EXPECT_EQ(plan.decisions.at(0).where, "p:9");
  EXPECT_TRUE(plan.recompute_collectives);
  // What is meant without the line is not written.
  EXPECT_EQ(
      print(parse_plan("plan @mlp on <> { schedule 1f1b }", "p")),
      "plan @mlp on <> {\n}\n");
}

TEST(Plan, StagesMayHaveMeshesOfTheirOwn) {
  const std::string text =
      "plan @mlp on <pipeline=2, data=2> {\n"
      "  stage %fc/relu on <tensor=3>\n"
      "  %batch.0 [data*tensor, -]\n"
      "}\n";
  const Plan plan = parse_plan(text, "p");
  EXPECT_EQ(print(plan), text);
  EXPECT_EQ(parse_plan(print(plan), "again"), plan);
  EXPECT_TRUE(has_unequal_stages(plan));
  EXPECT_EQ(rank_count(plan), 5);
  EXPECT_EQ(print(stage_mesh(plan, 0)), "<data=2>");
  EXPECT_EQ(print(position_meshes(plan).at(1)), "<tensor=3>");
  EXPECT_EQ(print(widest_mesh(plan)), "<data=2, tensor=3>");
  EXPECT_EQ(
      rank_names(plan),
      std::vector<std::string>(
          {"stage 0 (rank 0)",
           "stage 0 (rank 1)",
           "stage 1 (rank 2)",
           "stage 1 (rank 3)",
           "stage 1 (rank 4)"}));
  // A mesh that is the others' makes nothing unequal.
  const Plan same = parse_plan(
      "plan @mlp on <pipeline=2, data=2> { stage %fc/relu on <data=2> }", "p");
  EXPECT_FALSE(has_unequal_stages(same));
  EXPECT_EQ(rank_count(same), 4);
}

TEST(Plan, AScheduleOfItsOwn) {
  const std::string text =
      "plan @mlp on <pipeline=2> in <micro=2> {\n"
      "  schedule @mine {\n"
      "    stages 2\n"
      "    micro_batches 2\n"
      "    0: F0 F1 B1 B0\n"
      "    1: F0 F1 B1 B0\n"
      "  }\n"
      "  stage %fc/mm\n"
      "  %batch.0 [micro, -]\n"
      "}\n";
  const Plan plan = parse_plan(text, "p");
  EXPECT_EQ(print(plan), text);
  EXPECT_EQ(parse_plan(print(plan), "again"), plan);
  EXPECT_EQ(schedule_of(plan).order.at(1).at(2).part, 1);
  verify(plan, parse_graph(kGraph, "g"));
  Plan other = plan;
  other.own_schedule = Schedule();
  EXPECT_NE(other, plan);
  // The last line counts.
  EXPECT_EQ(
      parse_plan(
          "plan @mlp on <> { schedule @x { stages 1 micro_batches 1 0: F0 B0 } "
          "schedule gpipe }",
          "p"),
      parse_plan("plan @mlp on <> { schedule gpipe }", "p"));
}

TEST(Plan, AScheduleMustFitThePlan) {
  const auto message = [](const std::string& head, const std::string& own) {
    return message_of(
        cat("plan @mlp on ",
            head,
            " {\n  schedule @mine {\n",
            own,
            "  }\n  stage %fc/mm\n  %batch.0 [micro, -]\n}"));
  };
  const std::string units = "0: F0 F1 B1 B0\n1: F0 F1 B1 B0\n";
  const std::string good = cat("stages 2\nmicro_batches 2\n", units);
  EXPECT_EQ(message("<pipeline=2> in <micro=2>", good), "no error");
  EXPECT_EQ(
      message("<pipeline=2> in <micro=3>", good),
      "p:2: schedule @mine is for 2 micro-batch(es), and the plan has 3 (in "
      "<micro=3>); change one of them");
  EXPECT_EQ(
      message(
          "<pipeline=2> in <micro=2>",
          "stages 1\nmicro_batches 2\n0: F0 F1 B1 B0\n"),
      "p:2: schedule @mine is for 1 position(s), and the plan has 2 (on "
      "<pipeline=2>); change one of them");
  EXPECT_EQ(
      message(
          "<pipeline=2> in <micro=1>",
          "stages 3\nmicro_batches 1\n0: F0 F0@2 B0@2 B0\n1: F0 B0\n"),
      "p:2: schedule @mine is for 3 stage(s), and the plan has 2 (1 stage "
      "line(s)); change one of them");
  EXPECT_EQ(
      message(
          "<pipeline=2> in <micro=1>",
          "stages 2\nmicro_batches 1\n0: F0 F0@1 B0@1 B0\n1:\n"),
      "p:6: schedule @mine: position 1 has nothing to do; give it a stage, or "
      "the mesh a smaller pipeline");
  EXPECT_EQ(
      message(
          "<pipeline=2> in <micro=2>",
          "stages 2\nmicro_batches 2\n0: F0 F1 B1 B0\n1: F0 F1 B0\n"),
      "p:2: schedule @mine: B1@1 is missing; every stage has F and B for every "
      "part");
  EXPECT_EQ(
      message_of("plan @mlp on <pipeline=2> { schedule zb-v stage %fc/mm }"),
      "p:1: schedule zb-v needs two stages a position, and there are 2 stages "
      "on 2 positions; take 4 stages");
}

TEST(Plan, LinesAreNotCompared) {
  const std::string line = "plan @mlp on <data=2> { %fc/* [-, -] }";
  EXPECT_EQ(parse_plan(line, "p"), parse_plan(cat("\n\n", line), "q"));
}

TEST(Plan, ParseMessages) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_plan(text, "p");
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(
      message("plan @mlp on <> { recompute fc }"),
      "p:1:29: expected 'cheap', 'collectives' or '%' and a pattern, found "
      "\"fc\"");
  EXPECT_EQ(
      message("plan @mlp on <> {\n  %a [-]\n  schedule gpipe }"),
      "p:3:3: expected '%' and a decision (settings stand before the first "
      "one), or '}', found \"schedule\"");
}

TEST(Plan, AScheduleFromAFileIsReadFromBesideThePlan) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "weft_plan_test";
  std::filesystem::create_directories(folder);
  const std::string text =
      "schedule @mine {\n"
      "  stages 1\n"
      "  micro_batches 2\n"
      "  0: F0 B0 F1 B1\n"
      "}\n";
  write_file((folder / "mine.schedule").string(), text);
  const std::string source = (folder / "p.plan").string();
  const Plan plan =
      parse_plan("plan @mlp on <> { schedule \"mine.schedule\" }", source);
  EXPECT_EQ(print(schedule_of(plan)), text);
  // What is printed needs the file no more.
  std::filesystem::remove_all(folder);
  EXPECT_EQ(parse_plan(print(plan), "elsewhere"), plan);
  try {
    parse_plan("plan @mlp on <> {\n  schedule \"mine.schedule\" }", source);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        cat(source,
            ":2:12: there is no file ",
            (folder / "mine.schedule").string(),
            "; a path is from the folder of the plan on"));
  }
}

TEST(Plan, MessagesOfThePlan) {
  EXPECT_EQ(
      message_of("\nplan @gpt on <data=2> { }"),
      "p:2: the plan is for graph @gpt, and this is graph @mlp");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2, data=2> { }"),
      "p:1: [mesh] two axes have the name data");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> {\n  recompute %fc/my\n}"),
      "p:2: recompute %fc/my: no value that forward makes has such a name; "
      "near are %fc/mm, %fc/t");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { recompute %batch.0 }"),
      "p:1: recompute %batch.0: no value that forward makes has such a name; "
      "`weft capture` prints the names");
}

TEST(Plan, MessagesHaveTheLineAndSayWhatWouldDo) {
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %batch.0 [data, -] }"), "no error");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> {\n  %fd/m* [data, -]\n}"),
      "p:2: %fd/m* [data, -]: no value of the step has such a name; near are "
      "%fc/mm, %fc/t");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %nothing.alike [data, -] }"),
      "p:1: %nothing.alike [data, -]: no value of the step has such a name; "
      "`weft capture` prints the names");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> {\n\n  %batch.0 [x, -] }"),
      "p:3: %batch.0 [x, -]: [layout] [x, -] names the axis 'x', which is not "
      "on the mesh <data=2>");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %batch.0 [data] }"),
      "p:1: %batch.0 [data]: [data] has 1 dims, and f32[6, 8] has 2; give as "
      "many, as in [-, -]");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %batch.0 [data, data] }"),
      "p:1: %batch.0 [data, data]: [layout] [data, data] uses the axis data "
      "twice");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %fc.weight [-, -] compute [y, -] }"),
      "p:1: %fc.weight [-, -] compute [y, -]: [layout] [y, -] names the axis "
      "'y', which is not on the mesh <data=2>");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %batch.* [data, -] +{data} }"),
      "p:1: %batch.* [data, -] +{data} (for %batch.0): [layout] [data, -] "
      "+{data} uses the axis data twice");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2> { %fc.weight [-, -] +{data} }"),
      "p:1: %fc.weight [-, -] +{data}: an input is no partial sum; leave out "
      "'+{data}'");
}

TEST(Plan, PiecesMayBeUnevenButNotEmpty) {
  EXPECT_EQ(
      message_of("plan @mlp on <data=4> { %batch.* [data, -] }"), "no error");
  EXPECT_EQ(
      message_of("plan @mlp on <data=2, x=4> { %batch.* [data*x, -] }"),
      "p:1: %batch.* [data*x, -] (for %batch.0): dim 0 of f32[6, 8] has too "
      "few elements for 8 pieces; split another dim, or over fewer ranks");
  EXPECT_EQ(
      message_of("plan @mlp on <x=2> { %batch.* [(3 x:2), -] }"), "no error");
  EXPECT_EQ(
      message_of("plan @mlp on <x=4> { %batch.* [(3 x:2), -] }"),
      "p:1: %batch.* [(3 x:2), -] (for %batch.0): dim 0 of f32[6, 8] has too "
      "few elements for 4 pieces; split another dim, or over fewer ranks");
}

TEST(Plan, OnlyParametersHaveAComputeLayout) {
  EXPECT_EQ(
      message_of("plan @mlp on <x=2> { %fc.* [x, -] compute [-, -] }"),
      "no error");
  EXPECT_EQ(
      message_of("plan @mlp on <x=2> { %batch.0 [x, -] compute [-, -] }"),
      "p:1: %batch.0 [x, -] compute [-, -]: only a parameter has a compute "
      "layout, and this is an input of kind batch; leave out 'compute ...', or "
      "take a narrower pattern");
  EXPECT_EQ(
      message_of("plan @mlp on <x=2> { %fc* [x, -] compute [-, -] }"),
      "p:1: %fc* [x, -] compute [-, -] (for %fc/t): only a parameter has a "
      "compute layout, and this is made by the step; leave out 'compute ...', "
      "or take a narrower pattern");
}

TEST(Plan, EvaluationTakesTheLinesThatNameSomethingOfIt) {
  const Plan plan = parse_plan(
      "plan @mlp on <x=2> { recompute %fc/t %fc.weight.exp_avg [x, -] "
      "%fc.weight [x, -] }",
      "p");
  Graph graph = parse_graph(kGraph, "g");
  EXPECT_EQ(
      print(forward_plan(plan, graph)),
      "plan @mlp on <x=2> {\n  %fc.weight [x, -]\n}\n");
  find_function(graph, "step")->nodes.back().phase = Phase::Backward;
  EXPECT_EQ(forward_plan(plan, graph), plan);
}

TEST(Plan, RanksAreThoseOfTheMesh) {
  const Plan plan = parse_plan("\nplan @mlp on <data=2, x=2> { }", "p");
  verify_ranks(plan, 4);
  try {
    verify_ranks(plan, 2);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "p:2: the mesh <data=2, x=2> needs 4 ranks, and there are 2; start 4, "
        "or write a mesh of 2");
  }
}

}  // namespace
}  // namespace weft
