// SPDX-License-Identifier: Apache-2.0
// weft explain: what a plan does with the time and the memory of its ranks, and
// what ranks did before a fault.
#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/explain_fault.h"
#include "cli/lowering.h"
#include "cli/terminal.h"
#include "profile/text_table.h"
#include "program/transfer.h"
#include "search/rank_memory.h"
#include "simulate/simulate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

namespace weft {
namespace {

struct ExplainFlags {
  LoweringFlags lowering;
  std::string cluster;
  bool is_fault = false;
  bool as_json = false;
};

// Of one rank, in seconds.
struct TimeParts {
  double forward = 0;
  double backward = 0;
  double again = 0;
  double update = 0;
  // For transfers of a group, and for other stages.
  double exchange = 0;
  double stages = 0;
};

TimeParts time_of(
    const Block& block, const Timeline& timeline, int64_t rank, double step) {
  TimeParts parts;
  const std::vector<const Start*> from = transfers(block);
  double end = 0;
  for (const Event& event : timeline.events) {
    if (event.rank != rank || event.stream != Stream::Compute) {
      continue;
    }
    const double taken = event.end_seconds - event.start_seconds;
    end = std::max(end, event.end_seconds);
    const Instruction& instruction =
        block.instructions[static_cast<size_t>(event.instruction)];
    if (const auto* wait = std::get_if<Wait>(&instruction)) {
      const Start* start = from[index(wait->value)];
      const bool is_group = start != nullptr && is_collective(start->kind);
      (is_group ? parts.exchange : parts.stages) += taken;
    } else if (const auto* call = std::get_if<Call>(&instruction)) {
      switch (block.function.nodes[index(call->node)].phase) {
        case Phase::Backward:
          parts.backward += taken;
          break;
        case Phase::Recompute:
          parts.again += taken;
          break;
        case Phase::Optimizer:
          parts.update += taken;
          break;
        default:
          parts.forward += taken;
      }
    }
  }
  parts.stages += step - end;
  return parts;
}

std::string time_table(
    const Program& program, const Timeline& timeline, const TextStyle& style) {
  const double step = step_seconds(timeline);
  TextTable table;
  table.column("ranks", Align::Left)
      .column("forward")
      .column("backward")
      .column("made again")
      .column("update")
      .column("exchanges")
      .column("waiting");
  for (const Block& block : program.blocks) {
    const TimeParts parts = time_of(block, timeline, block.first_rank, step);
    const auto share = [&](double part) { return percent(part / step); };
    table.row(
        {block.first_rank == block.last_rank
             ? cat(block.first_rank)
             : cat(block.first_rank, " to ", block.last_rank),
         share(parts.forward),
         share(parts.backward),
         share(parts.again),
         share(parts.update),
         share(parts.exchange),
         share(parts.stages)});
  }
  return table.print(style, 2);
}

std::string exchange_table(const Program& program, const TextStyle& style) {
  TextTable table;
  table.column("rank 0 takes", Align::Left)
      .column("over", Align::Left)
      .column("a step");
  for (const WireBytes& one : wire_bytes_by_kind(program, 0)) {
    if (one.bytes > 0) {
      table.row(
          {std::string(name(one.kind)),
           one.axes.empty() ? "stages" : join(one.axes, ", "),
           bytes_text(one.bytes)});
    }
  }
  return table.print(style, 2);
}

void run_explain(const ExplainFlags& flags) {
  if (flags.is_fault) {
    std::cout << explain_fault(flags.lowering.model, flags.as_json);
    return;
  }
  WEFT_CHECK_USER(!flags.as_json, "--json is for --fault");
  WEFT_CHECK_USER(
      !flags.cluster.empty(),
      "--cluster is required: the machines whose times are told, as in "
      "--cluster 8xA100-80G");
  const Cluster cluster = load_cluster(flags.cluster);
  const Program program = load_program(flags.lowering, cluster);
  const Timeline timeline = simulate(program, cluster);
  const TextStyle style = stdout_style(false);
  std::cout << "program @" << program.name << " on "
            << print_meshes(program.meshes) << ", " << rank_count(program)
            << " rank(s) of @" << cluster.name << "\nstep "
            << decimals(1e3 * step_seconds(timeline), 3)
            << " ms, simulated\n\nwhere the time goes:\n"
            << time_table(program, timeline, style)
            << "\nwhat the memory holds:\n"
            << memory_table(
                   rank_memories(program), cluster.device.memory_bytes, style)
            << "\n"
            << exchange_table(program, style);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  const auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command = app.add_subcommand(
      "explain", "What a plan does with time and memory, rank by rank");
  command->group(kStepGroup);
  add_lowering_flags(*command, flags->lowering);
  command
      ->add_option(
          "--cluster", flags->cluster, "2x8xA100-80G, or a cluster file")
      ->type_name("NAME");
  command->add_flag(
      "--fault",
      flags->is_fault,
      "MODEL is the --output of a run: what its ranks did last, who waited for "
      "whom, and who never came");
  command->add_flag("--json", flags->as_json, "The same for programs");
  command->footer(R"(Examples:
  weft explain --fault run
  weft explain gpt.graph --plan gpt.plan --cluster 8xA100-80G
  weft explain gpt.graph --parallel data=4,zero=3 --cluster two_cores.cluster)");
  command->callback([flags] { run_explain(*flags); });
}

}  // namespace weft
