// SPDX-License-Identifier: Apache-2.0
// Candidates are lowered and simulated, and what their estimates say is put
// right by what programs take.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "ops/rule_memo.h"
#include "plan/plan.h"
#include "search/estimate.h"
#include "search/search.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace weft {

// Whether some units are made again whole.
bool has_whole_layers(const Tried& tried);

class Trials {
 public:
  // Keeps references to all of them. Decisions of the options are added to
  // every plan.
  Trials(
      const Graph& graph,
      const Cluster& cluster,
      const SearchOptions& options,
      Estimator& estimator)
      : graph_(graph),
        cluster_(cluster),
        budget_bytes_(options.max_bytes.value_or(cluster.device.memory_bytes)),
        decisions_(options.decisions),
        before_lowering_(options.before_lowering),
        estimator_(estimator) {}

  int64_t budget_bytes() const { return budget_bytes_; }

  // Lowers it and, where it fits, simulates it; if not, its reason says so.
  // Where layers are made again for want of room that is done again with as
  // many of them as there really is room for. `tries_cuts`: what stages wait
  // for each other is not in the estimate's cut, so others are tried too.
  void run(Tried& tried, bool tries_cuts);

  Plan plan_for(const Tried& tried);

 private:
  bool each_cut(
      const std::vector<int32_t>& starts,
      size_t stages,
      std::vector<std::vector<int32_t>>& out) const;
  void try_cuts(const std::vector<std::vector<int32_t>>& cuts, Tried& tried);
  void shift_stages(Tried& tried);
  bool shift(std::vector<int32_t>& starts, size_t stage, int32_t by) const;
  void lower_and_simulate(Tried& tried);

  const Graph& graph_;
  const Cluster& cluster_;
  const int64_t budget_bytes_;
  const std::vector<Decision>& decisions_;
  const std::function<void(const Candidate&)>& before_lowering_;
  Estimator& estimator_;
  // Of the nodes of the whole step.
  const std::shared_ptr<RuleMemo> rules_ = std::make_shared<RuleMemo>();
};

}  // namespace weft
