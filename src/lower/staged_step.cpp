// SPDX-License-Identifier: Apache-2.0
#include "lower/staged_step.h"

#include "ops/crossing.h"
#include "ops/op_def.h"

#include <algorithm>

namespace weft {

StagedStep::StagedStep(const Lowering& all)
    : lowering(all),
      step(step_of(all.graph)),
      schedule(schedule_of(all.plan)),
      stages(
          all.position ? StageMap{all.node_stages, {}}
                       : stages_of(step, all.plan)),
      order(schedule.order.size()) {
  for (int64_t stage = 0; stage < schedule.stages; ++stage) {
    positions.push_back(static_cast<size_t>(position_of(schedule, stage)));
  }
  if (all.position) {
    find_own_stages(*all.position);
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

void StagedStep::find_own_stages(size_t position) {
  stages.inputs.assign(step.values.size(), kNoStage);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    stages.inputs[index(step.inputs[i].value)] = lowering.input_stages[i];
  }
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    // Who sends cuts it there.
    const std::optional<Crossing> crossing = crossing_of(step.nodes[i]);
    if (crossing &&
        positions[static_cast<size_t>(crossing->from_stage)] == position) {
      stages.nodes[i] = crossing->from_stage;
    }
  }
}

}  // namespace weft
