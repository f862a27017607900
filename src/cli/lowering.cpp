// SPDX-License-Identifier: Apache-2.0
#include "cli/lowering.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "ops/verify_calls.h"
#include "plan/parallel.h"
#include "plan/rank_names.h"

#include <CLI/CLI.hpp>

namespace weft {
namespace {

constexpr std::string_view kProgramEnding = ".program";

bool is_program(const std::string& model) {
  return model.size() > kProgramEnding.size() &&
         model.ends_with(kProgramEnding);
}

// Without its graph. Which ranks have what follows from a schedule of its own,
// which must fit it.
Plan plan_alone(const std::string& path) {
  Plan plan = parse_plan(read_input(path), path);
  if (plan.own_schedule) {
    verify_schedule(plan);
  }
  return plan;
}

}  // namespace

void add_plan_flags(
    CLI::App& command, PlanFlags& flags, const std::string& without) {
  CLI::Option* parallel =
      command
          .add_option(
              "--parallel",
              flags.parallel,
              "How ranks share the step, as in data=2,tensor=2,zero=1 "
              "(docs/parallel.md)")
          ->type_name("WORDS");
  command
      .add_option(
          "--plan",
          flags.plan,
          cat("The same value by value; without either, ", without))
      ->excludes(parallel)
      ->type_name("FILE");
}

Plan load_plan(
    const PlanFlags& flags, const Graph& graph, const Device& device) {
  return flags.plan.empty()
             ? expand(
                   parse_parallel(flags.parallel, "--parallel"), graph, device)
             : parse_plan(read_input(flags.plan), flags.plan);
}

std::string name_of(const PlanFlags& flags) {
  return flags.plan.empty() ? "--parallel" : flags.plan;
}

int64_t rank_count(const PlanFlags& flags) {
  return flags.plan.empty()
             ? rank_count(parse_parallel(flags.parallel, "--parallel"))
             : rank_count(plan_alone(flags.plan));
}

std::vector<std::string> rank_names(const PlanFlags& flags) {
  return flags.plan.empty()
             ? rank_names(parse_parallel(flags.parallel, "--parallel"))
             : rank_names(plan_alone(flags.plan));
}

void add_lowering_flags(CLI::App& command, LoweringFlags& flags) {
  command
      .add_option(
          "MODEL",
          flags.model,
          "FILE.py:FUNCTION, FILE.graph, FILE.pt2 or FILE.program")
      ->type_name("")
      ->required();
  add_plan_flags(command, flags.plan, "the whole step on one rank");
  command
      .add_option(
          "--dump-dir",
          flags.options.dump_dir,
          "Write the text after each pass into this folder")
      ->type_name("DIR");
  command
      .add_option(
          "--disable-pass",
          flags.options.disabled,
          "Passes to leave out: a,b,c")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_flag(
      "--pass-times", flags.options.print_times, "Print how long passes take");
}

Program load_program(
    const LoweringFlags& flags, const std::optional<Cluster>& cluster) {
  if (is_program(flags.model)) {
    WEFT_CHECK_USER(
        !flags.plan.is_given(),
        "a program has its plan in it: leave out --plan and --parallel");
    Program program = parse_program(read_input(flags.model), flags.model);
    verify(program);
    for (const Block& block : program.blocks) {
      verify_calls(block.function);
    }
    return program;
  }
  const Graph graph = load_model(flags.model, {}).graph;
  Plan plan;
  plan.graph = graph.name;
  if (flags.plan.is_given()) {
    plan = load_plan(flags.plan, graph, cluster ? cluster->device : one_core());
  }
  return cluster ? lower(graph, plan, *cluster, flags.options)
                 : lower(graph, plan, flags.options);
}

}  // namespace weft
