// SPDX-License-Identifier: Apache-2.0
// weft run: steps of a program on tensors from a file, for real.
#include "execute/run.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/lowering.h"
#include "cli/number_flags.h"
#include "cli/rank_flags.h"
#include "cli/temporary_folder.h"
#include "execute/rank_room.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>

namespace weft {
namespace {

struct RunFlags {
  LoweringFlags lowering;
  RunOptions options;
  std::string timeline;
  bool oversubscribe = false;
};

// The command line of one rank.
std::vector<std::string> rank_arguments(
    const RunFlags& flags, const std::string& program) {
  std::vector<std::string> arguments = {
      "run",
      program,
      "--inputs",
      flags.options.inputs,
      "--steps",
      cat(flags.options.steps),
      "--seed",
      cat(flags.options.seed),
      "--threads",
      cat(flags.options.threads)};
  if (!flags.options.outputs.empty()) {
    arguments.insert(arguments.end(), {"--outputs", flags.options.outputs});
  }
  if (!flags.timeline.empty()) {
    arguments.insert(arguments.end(), {"--timeline", flags.timeline});
  }
  return arguments;
}

void run_rank(
    const RunFlags& flags,
    const Program& program,
    const Rendezvous& rendezvous) {
  const std::optional<RunResult> result =
      run(program, rendezvous, flags.options);
  if (!result) {
    return;
  }
  for (size_t step = 0; step < result->losses.size(); ++step) {
    std::cout << "step " << step << "  loss "
              << print_double(result->losses[step]) << "\n";
  }
  if (!flags.timeline.empty()) {
    write_output(flags.timeline, print(result->timeline));
  }
}

RankRequest request_of(const RunFlags& flags, int64_t ranks) {
  const PlanFlags& plan = flags.lowering.plan;
  return {
      ranks,
      plan.is_given() ? name_of(plan) : flags.lowering.model,
      flags.oversubscribe};
}

void run_run(const RunFlags& flags) {
  const std::optional<Rendezvous> rendezvous = rendezvous_from_environment();
  const PlanFlags& plan = flags.lowering.plan;
  // Before a step is lowered for ranks that cannot be. The standard input can
  // be read only once.
  if (!rendezvous && plan.is_given() && plan.plan != "-") {
    verify_room(request_of(flags, rank_count(plan)));
  }
  const Program program = load_program(flags.lowering, std::nullopt);
  if (rendezvous) {
    run_rank(flags, program, *rendezvous);
    return;
  }
  const RankRequest request = request_of(flags, rank_count(program));
  if (request.ranks == 1) {
    run_rank(flags, program, {});
    return;
  }
  verify_room(request);
  // In a file while ranks read it, so that the model is captured and lowered
  // once.
  const TemporaryFolder folder;
  const std::string path = folder.file("step.program");
  write_file(path, print(program));
  const int status = start_ranks(
      request.ranks,
      rank_arguments(flags, path),
      {.asked_by = request.asked_by, .oversubscribe = request.oversubscribe});
  // The rank has said what was wrong.
  if (status != 0) {
    throw CLI::RuntimeError(status);
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand(
      "run", "Run steps under a plan on tensors from a file");
  command->group(kStepGroup);
  add_lowering_flags(*command, flags->lowering);
  command
      ->add_option(
          "--inputs",
          flags->options.inputs,
          "A safetensors file with the whole inputs: batch/0, "
          "parameter/NAME, scalar/lr.0, ...")
      ->type_name("FILE")
      ->required();
  command
      ->add_option(
          "--outputs",
          flags->options.outputs,
          "Write what the last step returns: loss, gradient/NAME, ...")
      ->type_name("FILE");
  command
      ->add_option(
          "--timeline",
          flags->timeline,
          "Write the last step's timeline; - for the output")
      ->type_name("FILE");
  command
      ->add_option(
          "--steps", flags->options.steps, "How many, all on the same batch")
      ->transform(whole_number(kSteps));
  command
      ->add_option(
          "--seed", flags->options.seed, "What random numbers follow from")
      ->transform(whole_number({}));
  command
      ->add_option(
          "--threads", flags->options.threads, "Threads inside one operator")
      ->transform(whole_number(kThreads));
  add_oversubscribe_flag(*command, flags->oversubscribe);
  command->footer(
      R"(The plan's mesh tells how many ranks there are; they are started here, or
by torchrun.

Examples:
  weft run gpt.graph --inputs gpt.safetensors
  weft run gpt.graph --plan data_parallel.plan --inputs gpt.safetensors --steps 3 --timeline measured.timeline)");
  command->callback([flags] { run_run(*flags); });
}

}  // namespace weft
