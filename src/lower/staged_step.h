// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "lower/pass.h"
#include "lower/stages.h"
#include "plan/schedule.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace weft {

// Operations an element above which a node is a product, worth a unit of its
// own.
inline constexpr int64_t kHeavyOperations = 32;

// What the blocks of all ranks have in common.
struct StagedStep {
  const Lowering& lowering;
  const Function& step;
  Schedule schedule;
  // By stage.
  std::vector<size_t> positions;
  StageMap stages;
  // By node of the step.
  std::vector<int64_t> flops;
  std::vector<bool> is_heavy;
  // For every position, where units stand in its order.
  std::vector<std::map<std::tuple<UnitKind, int64_t, int64_t>, size_t>> order;

  explicit StagedStep(const Lowering& all);

 private:
  // As the lowering of a position has them.
  void find_own_stages(size_t position);
};

}  // namespace weft
