// SPDX-License-Identifier: Apache-2.0
#include "cli/train_plan.h"

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/output_file.h"
#include "cli/measured_cluster.h"
#include "cli/terminal.h"
#include "plan/parallel.h"
#include "profile/text_table.h"
#include "search/nearest.h"

#include <filesystem>
#include <iostream>
#include <optional>

namespace weft {
namespace {

// How long a plan is looked for, at the most.
constexpr double kSearchSeconds = 20;

SearchOptions search_options(const TrainFlags& flags) {
  SearchOptions options;
  options.time_limit_seconds = kSearchSeconds;
  if (flags.options.trainer.budget_bytes > 0) {
    options.max_bytes = flags.options.trainer.budget_bytes;
  }
  // The last of them may be shorter than the batch that is planned for.
  if (flags.options.evaluate_every > 0 || flags.keep_last) {
    forbid_word(options.limits, "micro-batches");
    forbid_word(options.limits, "pipeline");
  }
  return options;
}

// Of --output: the plan that was found, with which a resumed run goes on.
constexpr std::string_view kFoundPlan = "found.plan";

// Machines may have been measured again since, and another plan rounds
// otherwise. None where it was for other ranks or another step.
std::optional<Plan> plan_found_before(
    const TrainFlags& flags, const Graph& graph) {
  const std::filesystem::path path =
      std::filesystem::path(flags.options.output) / kFoundPlan;
  if (!flags.options.resume || !std::filesystem::exists(path)) {
    return std::nullopt;
  }
  try {
    Plan plan = parse_plan(read_file(path.string()), path.string());
    verify(plan, graph);
    return rank_count(plan) == flags.nproc ? std::optional(plan) : std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void keep_found_plan(const TrainFlags& flags, const Plan& plan) {
  if (!flags.options.output.empty()) {
    const std::string path =
        (std::filesystem::path(flags.options.output) / kFoundPlan).string();
    refuse_link(path);
    write_file(path, print(plan));
  }
}

// Where nobody said how ranks share the step: what is fastest by what was
// measured of this machine.
Plan searched_plan(const TrainFlags& flags, const Graph& graph) {
  // The search thinks of equal parts alone.
  if (batch_rows(graph) % flags.nproc != 0) {
    return expand({.data = flags.nproc}, graph);
  }
  const bool is_quiet = flags.options.is_quiet;
  const Cluster cluster = measured_cluster(
      flags.nproc, flags.options.threads, is_quiet, flags.oversubscribe);
  SearchOptions options = search_options(flags);
  std::optional<ProgressLine> line;
  if (!is_quiet) {
    line.emplace("looking for a plan");
    options.progress = [&](const std::string& text) { line->say(text); };
  }
  const SearchResult result =
      find_plan(planned_step(graph, flags.options.trainer), cluster, options);
  line.reset();
  if (!is_quiet) {
    const Tried& best = result.tried.front();
    std::cerr << cat(
        "weft: plan ",
        print(best.candidate),
        ", which should take ",
        decimals(1e3 * best.seconds(), 1),
        " ms a step and ",
        bytes_text(best.bytes()),
        " a rank; --parallel or --plan would say it otherwise\n");
  }
  return *result.plan;
}

}  // namespace

Plan found_plan(const TrainFlags& flags, const Graph& graph) {
  const std::optional<Plan> before = plan_found_before(flags, graph);
  Plan plan = before ? *before : searched_plan(flags, graph);
  keep_found_plan(flags, plan);
  return plan;
}

}  // namespace weft
