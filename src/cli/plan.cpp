// SPDX-License-Identifier: Apache-2.0
// weft plan: the plan that words stand for, the best plan for given machines,
// or a plan checked against its step.
#include "plan/plan.h"

#include "base/error.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/lowering.h"
#include "cli/number_flags.h"
#include "cli/search_flags.h"
#include "cli/terminal.h"
#include "cluster/cluster.h"
#include "lower/lower.h"
#include "plan/parallel.h"
#include "plan/plan_place.h"
#include "plan/schedule.h"
#include "program/live_bytes.h"
#include "rewrite/training.h"
#include "search/ilp_policy.h"
#include "search/nearest.h"
#include "search/recompute_policy.h"
#include "search/rotor_policy.h"
#include "search/search_print.h"
#include "search/units.h"
#include "search/what_if.h"
#include "search/words_layouts.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace weft {
namespace {

struct PlanCommandFlags {
  ModelFlags model;
  PlanFlags plan;
  // That it must fit; empty: any.
  std::string cluster;
  std::string output = "-";
  bool draw = false;
  // Of words alone; empty: as they are expanded.
  std::string recompute;
  // `words` or `search`; empty: as the words are expanded.
  std::string layouts;
  // Rows of the batch for which the best plan is searched.
  std::optional<int64_t> global_batch;
  std::string precision = "f32";
  SearchFlags search;
  bool json = false;
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

std::string commented(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    out += line.empty() ? "//\n" : cat("// ", line, "\n");
  }
  return out;
}

// Given back with the process: one by one, the parts of a graph or of a search
// take longer to give back than most of what is done with them.
template <typename Large>
const Large& until_exit(Large large) {
  return *new Large(std::move(large));
}

// As training runs it: nobody reads the gradients when they have been used.
LoadedModel load(const PlanCommandFlags& flags) {
  ModelOptions options = model_options(flags.model);
  options.precision = flags.precision;
  if (flags.global_batch && !flags.model.model.ends_with(".graph") &&
      !flags.model.model.ends_with(".pt2")) {
    options.batch_size = flags.global_batch;
  }
  LoadedModel loaded = load_model(flags.model.model, options);
  WEFT_CHECK_USER(
      !flags.global_batch || batch_rows(loaded.graph) == *flags.global_batch,
      flags.model.model,
      ": its batch has ",
      batch_rows(loaded.graph),
      " rows, and --global-batch asks for ",
      *flags.global_batch,
      "; capture it with --batch-size ",
      *flags.global_batch);
  drop_gradient_outputs(loaded.graph);
  return loaded;
}

// For people who wonder why so little memory is needed.
std::string note_without_optimizer(const Graph& graph) {
  const std::vector<Node>& nodes = step_of(graph).nodes;
  const bool has_one =
      std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
        return node.phase == Phase::Optimizer;
      });
  return has_one ? ""
                 : "\nthe model came without an optimizer: its states and "
                   "updates are in no figure\n";
}

// The words of a plan's mesh are kept, and its lines count after those found.
void complete(SearchOptions& options, const Plan& partial) {
  for (const Axis& axis : partial.mesh.axes) {
    fix_word(options.limits, cat(axis.name, "=", axis.size));
  }
  options.decisions = partial.decisions;
}

void run_search(const PlanCommandFlags& flags) {
  WEFT_CHECK_USER(
      !flags.cluster.empty(),
      "give --cluster, the machines that the plan is for, as in "
      "--cluster 2x8xA100-80G");
  WEFT_CHECK_USER(
      flags.plan.parallel.empty(),
      "--parallel says what the plan is, and --global-batch asks for the best "
      "one: leave one of them out, or give words to --fix");
  const Cluster cluster = search_cluster(flags.cluster, flags.search);
  const std::vector<std::vector<ClusterChange>> changes =
      what_if_changes(cluster, flags.search);
  SearchOptions options = search_options(flags.search);
  go_on_in_python(flags.model);
  options.searches_layouts = flags.layouts == "search";
  if (!flags.plan.plan.empty()) {
    complete(options, parse_plan(read_input(flags.plan.plan), flags.plan.plan));
  }
  std::optional<ProgressLine> line(std::in_place, "capturing");
  const LoadedModel& loaded = until_exit(load(flags));
  const Graph& graph = loaded.graph;
  options.progress = [&](const std::string& text) { line->say(text); };
  const SearchResult& result = until_exit(find_plan(graph, cluster, options));
  std::vector<WhatIf> what_ifs;
  for (const std::vector<ClusterChange>& each : changes) {
    what_ifs.push_back(what_if(graph, cluster, options, each));
  }
  line.reset();
  if (flags.json) {
    nlohmann::json out = to_json(result, cluster, what_ifs);
    nlohmann::json& by_stage = out["seconds_by_stage"];
    by_stage["build"] = loaded.build_seconds;
    by_stage["capture"] = loaded.capture_seconds;
    write_output(flags.output, cat(out.dump(2), "\n"));
    return;
  }
  const std::string summary =
      print(result, cluster, what_ifs) + note_without_optimizer(graph);
  if (flags.output != "-") {
    std::cout << summary;
  }
  write_output(
      flags.output,
      cat(flags.output == "-" ? commented(summary) : "",
          flags.draw ? drawing(*result.plan) : "",
          print(*result.plan)));
}

// As --recompute says.
void set_policy(
    const PlanCommandFlags& flags,
    const Graph& graph,
    const std::optional<Cluster>& cluster,
    Plan& plan) {
  if (flags.recompute.empty()) {
    return;
  }
  if (flags.recompute == "rotor" || flags.recompute == "ilp") {
    const std::optional<int64_t> budget =
        search_options(flags.search).max_bytes;
    WEFT_CHECK_USER(
        cluster && !flags.plan.parallel.empty(),
        "--recompute ",
        flags.recompute,
        " chooses by time and memory: give --parallel and "
        "--cluster, and --max-bytes for less than the device has");
    const Parallel words = parse_parallel(flags.plan.parallel, "--parallel");
    const int64_t bytes = budget.value_or(cluster->device.memory_bytes);
    if (flags.recompute == "rotor") {
      set_recompute_by_rotor(plan, graph, words, *cluster, bytes);
    } else if (!set_recompute_by_ilp(plan, graph, words, *cluster, bytes)) {
      std::cerr << "weft: what is made again fits; that nothing takes less was "
                   "not shown in "
                << kIlpSeconds << " s\n";
    }
    return;
  }
  const std::optional<RecomputePolicy> policy =
      recompute_policy(flags.recompute);
  WEFT_CHECK_USER(
      policy.has_value(),
      "--recompute is none, cheap, selective, full, rotor or ilp, not ",
      quote(flags.recompute));
  const Function& step = step_of(graph);
  set_recompute(plan, step, step_units(step), *policy);
}

// The words with the layouts that take the least time, and as a comment what
// came of it.
Plan searched_plan(
    const PlanCommandFlags& flags,
    const Graph& graph,
    const std::optional<Cluster>& cluster,
    std::string& note) {
  WEFT_CHECK_USER(
      cluster && !flags.plan.parallel.empty(),
      "--layouts search chooses by time: give --parallel and --cluster");
  const WordsPlan found = plan_with_layouts(
      graph,
      parse_parallel(flags.plan.parallel, "--parallel"),
      *cluster,
      search_options(flags.search)
          .max_bytes.value_or(cluster->device.memory_bytes));
  note =
      cat("// layouts ",
          found.is_searched ? "searched" : "as words say, which none beat",
          ": ",
          seconds_text(found.step_seconds),
          " a step",
          found.is_searched && found.words_seconds > 0
              ? cat(", by the words alone ", seconds_text(found.words_seconds))
              : "",
          "\n");
  return found.plan;
}

void run_plan(const PlanCommandFlags& flags) {
  if (flags.global_batch ||
      (!flags.plan.is_given() && !flags.cluster.empty())) {
    run_search(flags);
    return;
  }
  WEFT_CHECK_USER(
      flags.plan.is_given(),
      "give --cluster and --global-batch for the best plan, --parallel, as in "
      "--parallel data=2,tensor=2, or --plan FILE to check");
  WEFT_CHECK_USER(
      !binds_a_search(flags.search),
      "--fix, --forbid, --time-limit, --price and --what-if are for a search: "
      "give --global-batch, or leave them out");
  go_on_in_python(flags.model);
  const Graph graph = load(flags).graph;
  std::optional<Cluster> cluster;
  if (!flags.cluster.empty()) {
    cluster = load_cluster(flags.cluster);
  }
  std::string note;
  Plan plan =
      flags.layouts == "search"
          ? searched_plan(flags, graph, cluster, note)
          : load_plan(
                flags.plan, graph, cluster ? cluster->device : one_core());
  set_policy(flags, graph, cluster, plan);
  verify(plan, graph);
  if (cluster) {
    verify_memory(
        lower(graph, plan, *cluster),
        place(plan),
        cluster->device.memory_bytes);
  }
  write_output(
      flags.output, cat(note, flags.draw ? drawing(plan) : "", print(plan)));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  const auto flags = std::make_shared<PlanCommandFlags>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Find the best plan for some machines, or write one, or check it");
  command->group(kStepGroup);
  add_model_flags(*command, flags->model);
  command->get_option("MODEL")->required();
  add_batch_size_flag(*command, flags->model);
  add_plan_flags(*command, flags->plan, "nothing is planned");
  command
      ->add_option(
          "--cluster",
          flags->cluster,
          "Machines that the plan is for, or must fit in ranks and in memory")
      ->type_name("NAME");
  command
      ->add_option(
          "--global-batch",
          flags->global_batch,
          "Find the best plan for a batch of so many rows over all ranks")
      ->transform(whole_number(kBatchRows))
      ->type_name("N");
  command
      ->add_option(
          "--precision", flags->precision, "f32, bf16, bf16-mixed or f16-mixed")
      ->type_name("NAME");
  command
      ->add_option(
          "--recompute",
          flags->recompute,
          "What backward makes again: none, cheap, selective, full, or as "
          "little as fits the memory: rotor of layers, ilp of any values of a "
          "small step")
      ->type_name("POLICY");
  command
      ->add_option(
          "--layouts",
          flags->layouts,
          "Where values lie along tensor: as words say, or as a search finds "
          "that takes less time")
      ->check(CLI::IsMember({"words", "search"}))
      ->type_name("words|search");
  add_search_flags(*command, flags->search);
  command->add_flag(
      "--json", flags->json, "Of a search, all candidates as JSON");
  command
      ->add_option("-o,--output", flags->output, "Where to; - for the output")
      ->type_name("FILE");
  command->add_flag(
      "--draw", flags->draw, "Draw the schedule of the pipeline above it");
  command->footer(
      R"(What comes out can be edited, and is what --plan takes.

Examples:
  weft plan gpt.py:gpt2_xl --cluster 2x8xA100-80G --global-batch 512 -o gpt.plan
  weft plan gpt.py:gpt2_xl --cluster 8xA100-80G --global-batch 64 --fix tensor=8 --forbid pipeline
  weft plan gpt.py:gpt2_xl --cluster 2x8xA100-80G --global-batch 512 --price 2.5 --what-if bandwidth=2x --what-if nodes=2x
  weft plan gpt.py:gpt2_small --parallel data=2,tensor=2,sequence
  weft plan gpt.py:gpt2_small --parallel data=4,zero=3 -o gpt.plan
  weft plan gpt.py:gpt2_small --plan gpt.plan --cluster 8xA100-80G
  weft plan gpt.py:gpt2_small --parallel pipeline=4,schedule=zb-h1,micro-batches=8 --draw)");
  command->callback([flags] { run_plan(*flags); });
}

}  // namespace weft
