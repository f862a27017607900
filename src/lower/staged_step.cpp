// SPDX-License-Identifier: Apache-2.0
#include "lower/staged_step.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace weft {
namespace {

// Operations an element above which a node is worth a unit of its own.
constexpr int64_t kHeavyOperations = 32;

int64_t size_of_axis(const Mesh& mesh, std::string_view axis) {
  const int found = find_axis(mesh, std::string(axis));
  return found < 0 ? 1 : mesh.axes[static_cast<size_t>(found)].size;
}

}  // namespace

Schedule schedule_of(const Plan& plan) {
  try {
    return make_schedule(
        plan.schedule,
        {.positions = size_of_axis(plan.mesh, kPipelineAxis),
         .stages = stage_count(plan),
         .micro_batches = size_of_axis(plan.time, kMicroAxis),
         .slices = size_of_axis(plan.time, kSliceAxis)});
  } catch (const UserError& error) {
    throw UserError(
        cat(plan.where.empty() ? cat("plan @", plan.graph) : plan.where,
            ": ",
            error.what()));
  }
}

StagedStep::StagedStep(const Lowering& all)
    : lowering(all),
      step(step_of(all.graph)),
      schedule(schedule_of(all.plan)),
      stages(stages_of(step, all.plan)),
      order(schedule.order.size()) {
  for (int64_t stage = 0; stage < schedule.stages; ++stage) {
    positions.push_back(static_cast<size_t>(position_of(schedule, stage)));
  }
  for (const Node& node : step.nodes) {
    int64_t largest = 1;
    for (const ValueId read : operands(node)) {
      largest = std::max(largest, element_count(step[read].type));
    }
    flops.push_back(flops_of(step, node));
    is_heavy.push_back(flops.back() > kHeavyOperations * largest);
  }
  for (size_t p = 0; p < order.size(); ++p) {
    for (size_t i = 0; i < schedule.order[p].size(); ++i) {
      const Unit& unit = schedule.order[p][i];
      order[p][{unit.kind, unit.stage, unit.part}] = i;
    }
  }
}

}  // namespace weft
