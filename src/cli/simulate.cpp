// SPDX-License-Identifier: Apache-2.0
// weft simulate: how long a step would take, and how much memory.
#include "simulate/simulate.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/lowering.h"
#include "program/live_bytes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>

namespace weft {
namespace {

struct SimulateFlags {
  LoweringFlags lowering;
  std::string cluster;
  std::string program;
  std::string timeline;
  std::string measured;
};

void run_simulate(const SimulateFlags& flags) {
  const Cluster cluster = load_cluster(flags.cluster);
  const Program program = load_program(flags.lowering, cluster);
  const Timeline predicted = simulate(program, cluster);
  if (!flags.program.empty()) {
    write_output(flags.program, print(program));
  }
  if (!flags.timeline.empty()) {
    write_output(flags.timeline, print(predicted));
  }
  if (!flags.measured.empty()) {
    const Timeline measured =
        parse_timeline(read_input(flags.measured), flags.measured);
    verify(measured);
    std::cout << print(compare(predicted, measured));
    return;
  }
  int64_t most_bytes = 0;
  for (const Block& block : program.blocks) {
    most_bytes = std::max(most_bytes, peak_bytes(block));
  }
  char seconds[32];
  std::snprintf(
      seconds, sizeof(seconds), "%.3f", 1e3 * step_seconds(predicted));
  std::cout << "ranks        " << rank_count(program) << " of @" << cluster.name
            << "\nstep         " << seconds << " ms\npeak memory  "
            << human_bytes(static_cast<double>(most_bytes)) << " of "
            << human_bytes(static_cast<double>(cluster.device.memory_bytes))
            << " a rank\n";
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  const auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Predict time and memory of a step under a plan");
  command->group(kStepGroup);
  add_lowering_flags(*command, flags->lowering);
  command
      ->add_option(
          "--cluster", flags->cluster, "2x8xA100-80G, or a cluster file")
      ->type_name("NAME")
      ->required();
  command
      ->add_option(
          "--program", flags->program, "Write the program; - for the output")
      ->type_name("FILE");
  command
      ->add_option(
          "--timeline", flags->timeline, "Write the timeline; - for the output")
      ->type_name("FILE");
  command
      ->add_option(
          "--against",
          flags->measured,
          "A timeline that `weft run` measured: print both side by side")
      ->type_name("FILE");
  command->footer(R"(Examples:
  weft simulate gpt.graph --cluster 8xA100-80G
  weft simulate gpt.graph --plan data_parallel.plan --cluster two_cores.cluster --against measured.timeline)");
  command->callback([flags] { run_simulate(*flags); });
}

}  // namespace weft
