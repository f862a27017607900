// SPDX-License-Identifier: Apache-2.0
#include "train/begin_run.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_index.h"
#include "graph/function_text.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace weft {
namespace {

void refuse(
    const std::vector<RunChange>& changes, const std::string& checkpoint) {
  refuse_changes(
      run_settings(),
      changes,
      checkpoint,
      cat("Go on with what run.json says, which is so where the flag is left "
          "out, or begin another run from these parameters: --load ",
          checkpoint,
          " with another --output"));
}

// A run that is made longer learns nothing where its schedule has ended at 0.
void check_schedule(
    const TrainOptions& options,
    const std::vector<RunChange>& changes,
    int64_t step) {
  const RateSchedule& schedule = options.schedule;
  const bool is_longer =
      std::any_of(changes.begin(), changes.end(), [](const RunChange& change) {
        return change.name == "steps";
      });
  RateSchedule longer = schedule;
  longer.steps = options.steps;
  WEFT_CHECK_USER(
      !is_longer || schedule.curve == Curve::Constant || schedule.floor > 0 ||
          options.steps <= schedule.steps || step >= options.steps,
      "the schedule of the run, \"",
      print(schedule),
      "\", ends at step ",
      schedule.steps,
      " with the learning rate 0, and --steps ",
      options.steps,
      " goes on beyond it: nothing would be learnt there. Give a --schedule "
      "too, as in --schedule \"",
      print(longer),
      "\", which counts from step ",
      step + 1,
      " on");
}

}  // namespace

std::string step_identity(const Graph& graph) {
  Function step = step_of(graph);
  for (Node& node : step.nodes) {
    // Of the recorded run's memory: they change nothing that is computed.
    node.releases.clear();
    node.overwrites = ValueId::None;
  }
  std::string text = print(step);
  for (const Constant& constant : graph.constants) {
    if (!constant.name.starts_with("lr.")) {
      text += print(constant);
    }
  }
  const uint64_t sum = checksum_of(std::as_bytes(std::span(text)));
  std::string bytes(sizeof(sum), '\0');
  std::memcpy(bytes.data(), &sum, sizeof(sum));
  return to_hex(bytes);
}

RunBeginning begin_run(
    const TrainOptions& options,
    const RunValues& found,
    const std::optional<std::string>& checkpoint) {
  RunBeginning beginning;
  RunValues& values = beginning.record.values;
  values = options.settings;
  values.insert(found.begin(), found.end());
  if (!checkpoint) {
    return beginning;
  }
  if (!options.before) {
    beginning.notes.push_back(
        cat(options.output,
            " has no run.json, as those of earlier versions: whether the data, "
            "what is held out of it and the precision are those of the run so "
            "far cannot be checked"));
    return beginning;
  }
  const int64_t step = Checkpoint(*checkpoint).step();
  const std::vector<RunChange> changes =
      changes_between(run_settings(), options.before->values, values);
  refuse(changes, *checkpoint);
  check_schedule(options, changes, step);
  beginning.record.changes = options.before->changes;
  for (const RunChange& change : changes) {
    beginning.notes.push_back(explain(run_settings(), change));
    beginning.record.changes.push_back({step, change});
  }
  return beginning;
}

void refuse_changes(
    const TrainOptions& options, const std::string& checkpoint) {
  if (options.before) {
    refuse(
        changes_between(
            run_settings(), options.before->values, options.settings),
        checkpoint);
  }
}

}  // namespace weft
