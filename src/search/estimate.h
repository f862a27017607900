// SPDX-License-Identifier: Apache-2.0
// What candidates would take, put together from what their units cost: a step
// is laid out once for each way to compute a micro-batch, whatever the number
// of ranks, stages, layers and micro-batches.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "search/candidate.h"
#include "search/shrink.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft {

class Estimator {
 public:
  // Keeps a reference to the cluster.
  Estimator(const Graph& graph, const Cluster& cluster);

  const StepUnits& units() const { return units_; }
  // How many ways to compute a micro-batch were laid out so far.
  int64_t samples() const { return static_cast<int64_t>(tables_.size()); }

  // Stages are cut and layers chosen to be made again so that each stage fits
  // the budget and the slowest is as fast as may be: exactly, over all cuts,
  // where a position has one stage.
  Estimate estimate(const Candidate& candidate, int64_t budget_bytes);

  // What a rank computes at the least, however stages are cut; 0 where words
  // fit nothing.
  double least_seconds(const Candidate& candidate);

  // Sums over the units before each.
  struct Table {
    std::string reason;
    std::vector<UnitCost> units;
    std::vector<UnitCost> before;
  };

 private:
  const Table& table(const SampleKey& key);

  const Cluster& cluster_;
  StepUnits units_;
  ShrunkStep shrunk_;
  std::map<SampleKey, Table> tables_;
};

}  // namespace weft
