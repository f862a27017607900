// SPDX-License-Identifier: Apache-2.0
// weft plan: the plan that words stand for, or a plan checked against its step.
#include "plan/plan.h"

#include "base/error.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/lowering.h"
#include "cluster/cluster.h"
#include "lower/lower.h"
#include "plan/plan_place.h"
#include "plan/schedule.h"
#include "program/live_bytes.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

namespace weft {
namespace {

struct PlanCommandFlags {
  ModelFlags model;
  PlanFlags plan;
  // That it must fit; empty: any.
  std::string cluster;
  std::string output = "-";
  bool draw = false;
};

// As comments before the plan, which stays a plan.
std::string drawing(const Plan& plan) {
  const Schedule schedule = schedule_of(plan);
  const UnitCosts costs = drawing_costs(schedule);
  std::string out = cat(
      "// schedule ", schedule.name, ": one line a position of the pipeline\n");
  for (const std::string& line : split(draw(schedule, costs), '\n')) {
    out += line.empty() ? "" : cat("// ", line, "\n");
  }
  char idle[64];
  std::snprintf(
      idle,
      sizeof(idle),
      "%.1f %%",
      100 * run_schedule(schedule, costs).idle_share);
  return cat(
      out,
      "// idle ",
      idle,
      " of the time, if all stages take as long and transfers none\n");
}

void run_plan(const PlanCommandFlags& flags) {
  WEFT_CHECK_USER(
      flags.plan.is_given(),
      "give --parallel, as in --parallel data=2,tensor=2, or --plan FILE to "
      "check");
  const Graph graph =
      load_model(flags.model.model, model_options(flags.model)).graph;
  std::optional<Cluster> cluster;
  if (!flags.cluster.empty()) {
    cluster = load_cluster(flags.cluster);
  }
  const Plan plan =
      load_plan(flags.plan, graph, cluster ? cluster->device : one_core());
  verify(plan, graph);
  if (cluster) {
    verify_memory(
        lower(graph, plan, *cluster),
        place(plan),
        cluster->device.memory_bytes);
  }
  write_output(flags.output, cat(flags.draw ? drawing(plan) : "", print(plan)));
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
      ->add_option(
          "--cluster",
          flags->cluster,
          "Machines that the plan must fit, in ranks and in memory")
      ->type_name("NAME");
  command
      ->add_option("-o,--output", flags->output, "Where to; - for the output")
      ->type_name("FILE");
  command->add_flag(
      "--draw", flags->draw, "Draw the schedule of the pipeline above it");
  command->footer(
      R"(What comes out can be edited, and is what --plan takes.

Examples:
  weft plan gpt.py:gpt2_small --parallel data=2,tensor=2,sequence
  weft plan gpt.py:gpt2_small --parallel data=4,zero=3 -o gpt.plan
  weft plan gpt.py:gpt2_small --plan gpt.plan --cluster 8xA100-80G
  weft plan gpt.py:gpt2_small --parallel pipeline=4,schedule=zb-h1,micro-batches=8 --draw)");
  command->callback([flags] { run_plan(*flags); });
}

}  // namespace weft
