// SPDX-License-Identifier: Apache-2.0
// weft plan: the plan that words stand for, or a plan checked against its step.
#include "plan/plan.h"

#include "base/error.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/lowering.h"

#include <CLI/CLI.hpp>
#include <memory>

namespace weft {
namespace {

struct PlanCommandFlags {
  ModelFlags model;
  PlanFlags plan;
  std::string output = "-";
};

void run_plan(const PlanCommandFlags& flags) {
  WEFT_CHECK_USER(
      flags.plan.is_given(),
      "give --parallel, as in --parallel data=2,tensor=2, or --plan FILE to "
      "check");
  const Graph graph =
      load_model(flags.model.model, model_options(flags.model)).graph;
  const Plan plan = load_plan(flags.plan, graph);
  verify(plan, graph);
  write_output(flags.output, print(plan));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  const auto flags = std::make_shared<PlanCommandFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "Write the plan that words stand for, or check one");
  command->group(kStepGroup);
  add_model_flags(*command, flags->model);
  command->get_option("MODEL")->required();
  add_batch_size_flag(*command, flags->model);
  add_plan_flags(*command, flags->plan, "nothing is planned");
  command
      ->add_option("-o,--output", flags->output, "Where to; - for the output")
      ->type_name("FILE");
  command->footer(
      R"(What comes out can be edited, and is what --plan takes.

Examples:
  weft plan gpt.py:gpt2_small --parallel data=2,tensor=2,sequence
  weft plan gpt.py:gpt2_small --parallel data=4,zero=3 -o gpt.plan
  weft plan gpt.py:gpt2_small --plan gpt.plan)");
  command->callback([flags] { run_plan(*flags); });
}

}  // namespace weft
