// SPDX-License-Identifier: Apache-2.0
// weft simulate: how long a step would take, and how much memory.
#include "simulate/simulate.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/gpt_table.h"
#include "cli/lowering.h"
#include "cli/terminal.h"
#include "profile/text_table.h"
#include "program/live_bytes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

namespace weft {
namespace {

struct SimulateFlags {
  LoweringFlags lowering;
  std::string cluster;
  std::string program;
  std::string timeline;
  std::string measured;
  std::string table;
  bool json = false;
};

// "  compute  12.345 ms   61.2 %", for what there is.
std::string time_rows(const StepSummary& summary, const TextStyle& style) {
  TextTable table;
  table.column("", Align::Left).column("").column("");
  const auto add = [&](const char* what, double seconds) {
    if (seconds > 0) {
      table.row(
          {what,
           cat(decimals(1e3 * seconds, 3), " ms"),
           percent(seconds / summary.step_seconds)});
    }
  };
  add("compute", summary.times.compute_seconds);
  add("recompute", summary.times.recompute_seconds);
  add("communication", summary.times.communication_seconds);
  add("bubble", summary.times.bubble_seconds);
  add("host", summary.times.host_seconds);
  return table.print(style, 2);
}

std::string summary_text(const Program& program, const Cluster& cluster) {
  const StepSummary summary = summarize(program, cluster);
  const int64_t most_bytes = peak_bytes(program);
  const auto bytes = [](int64_t count) {
    return human_bytes(static_cast<double>(count));
  };
  return cat(
      "ranks        ",
      rank_count(program),
      " of @",
      cluster.name,
      ", ",
      summary.classes,
      summary.classes == 1 ? " kind" : " kinds",
      "\nstep         ",
      decimals(1e3 * summary.step_seconds, 3),
      " ms\n",
      time_rows(summary, stdout_style(false)),
      "peak memory  ",
      bytes(most_bytes),
      " of ",
      bytes(cluster.device.memory_bytes),
      " a rank\nmost live    ",
      bytes(summary.peak_bytes),
      ", rank ",
      summary.peak_rank,
      " at ",
      summary.peak_label,
      "\n");
}

void run_simulate(const SimulateFlags& flags) {
  if (!flags.table.empty()) {
    score_table(
        flags.table,
        flags.cluster.empty() ? kTableCluster : flags.cluster,
        flags.json);
    return;
  }
  WEFT_CHECK_USER(
      !flags.lowering.model.empty() && !flags.cluster.empty(),
      "name a model and --cluster, or a --table of measured runs");
  WEFT_CHECK_USER(!flags.json, "--json is for a --table");
  const Cluster cluster = load_cluster(flags.cluster);
  const Program program = load_program(flags.lowering, cluster);
  if (!flags.program.empty()) {
    write_output(flags.program, print(program));
  }
  if (!flags.timeline.empty() || !flags.measured.empty()) {
    const Timeline predicted = simulate(program, cluster);
    if (!flags.timeline.empty()) {
      write_output(flags.timeline, print(predicted));
    }
    if (!flags.measured.empty()) {
      const Timeline measured =
          parse_timeline(read_input(flags.measured), flags.measured);
      verify(measured);
      write_output("-", print(compare(predicted, measured)));
      return;
    }
  }
  write_output("-", summary_text(program, cluster));
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  const auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Predict time and memory of a step under a plan");
  command->group(kStepGroup);
  add_lowering_flags(*command, flags->lowering);
  CLI::Option* model = command->get_option("MODEL")->required(false);
  command
      ->add_option(
          "--cluster", flags->cluster, "2x8xA100-80G, or a cluster file")
      ->type_name("NAME");
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
  command
      ->add_option(
          "--table",
          flags->table,
          "Runs of GPT models that were measured (docs/cluster.md): how far "
          "off are we? Without a model; --cluster may name a kind of device")
      ->type_name("FILE.csv")
      ->excludes(model);
  command->add_flag("--json", flags->json, "The table's scores as JSON");
  command->footer(R"(Examples:
  weft simulate gpt.graph --cluster 8xA100-80G
  weft simulate --table bench/data/megatron_2021.csv --cluster A100-80G+8xHDR
  weft simulate gpt.graph --plan data_parallel.plan --cluster two_cores.cluster --against measured.timeline)");
  command->callback([flags] { run_simulate(*flags); });
}

}  // namespace weft
