// SPDX-License-Identifier: Apache-2.0
#include "plan/rank_names.h"

#include "base/text.h"
#include "plan/schedule.h"

namespace weft {
namespace {

// "stage 2", "stages 0 and 3", "stages 0, 2 and 4".
std::string stages_text(const std::vector<int64_t>& stages) {
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  for (size_t i = 0; i < stages.size(); ++i) {
    text += i == 0 ? "" : i + 1 == stages.size() ? " and " : ", ";
    text += cat(stages[i]);
  }
  return text;
}

}  // namespace

std::vector<std::string> rank_names(const Plan& plan) {
  std::vector<std::string> names;
  const int axis = find_axis(plan.mesh, std::string(kPipelineAxis));
  if (axis < 0) {
    return names;
  }
  verify_schedule(plan);
  const Schedule schedule = schedule_of(plan);
  std::vector<std::vector<int64_t>> stages(schedule.order.size());
  for (int64_t stage = 0; stage < schedule.stages; ++stage) {
    stages[static_cast<size_t>(position_of(schedule, stage))].push_back(stage);
  }
  const auto add = [&](size_t position) {
    names.push_back(
        cat(stages_text(stages[position]), " (rank ", names.size(), ")"));
  };
  if (has_unequal_stages(plan)) {
    const std::vector<Mesh> meshes = position_meshes(plan);
    for (size_t position = 0; position < meshes.size(); ++position) {
      for (int64_t i = 0; i < rank_count(meshes[position]); ++i) {
        add(position);
      }
    }
    return names;
  }
  for (int64_t rank = 0; rank < rank_count(plan.mesh); ++rank) {
    add(static_cast<size_t>(
        coordinates(plan.mesh, rank)[static_cast<size_t>(axis)]));
  }
  return names;
}

std::vector<std::string> rank_names(const Parallel& parallel) {
  // As `expand` has it: stages are the outermost axis.
  Plan plan;
  if (parallel.pipeline > 1) {
    plan.mesh.axes = {
        {std::string(kPipelineAxis), parallel.pipeline},
        {"others", rank_count(parallel) / parallel.pipeline}};
  }
  plan.time.axes = {
      {std::string(kMicroAxis), parallel.micro_batches},
      {std::string(kSliceAxis), parallel.slices}};
  plan.schedule = parallel.schedule;
  plan.own_schedule = parallel.own_schedule;
  plan.stages.resize(static_cast<size_t>(stage_count(parallel) - 1));
  return rank_names(plan);
}

}  // namespace weft
