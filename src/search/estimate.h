// SPDX-License-Identifier: Apache-2.0
// What candidates would take, put together from what their units cost: a step
// is laid out once for each way to compute a micro-batch, whatever the number
// of ranks, stages, layers and micro-batches.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/candidate.h"
#include "search/cut.h"
#include "search/samples.h"
#include "search/shrink.h"
#include "search/unit_table.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft {

class Estimator {
 public:
  // Keeps references to both.
  Estimator(const Graph& graph, const Cluster& cluster);
  // It is referred to by what it holds.
  Estimator(const Estimator&) = delete;
  Estimator& operator=(const Estimator&) = delete;

  const StepUnits& units() const { return units_; }
  // The step with fewer copies of its layers.
  const Graph& shrunk() const { return shrunk_.graph; }
  // How many ways to compute a micro-batch were looked at so far, for how many
  // of them a program was lowered, and what that took.
  int64_t samples() const { return static_cast<int64_t>(tables_.size()); }
  int64_t lowered() const { return samples_.lowered(); }
  double sample_seconds() const { return sample_seconds_; }

  // Of the candidates that will be looked at: what is found out about one
  // serves others, too.
  void expect(const std::vector<Candidate>& candidates);

  // Why it cannot be whatever its units cost; empty: it may be.
  std::string refusal(const Candidate& candidate) const;

  // Stages are cut and layers chosen to be made again so that each stage fits
  // the budget and the slowest is as fast as may be: exactly, over all cuts,
  // where a position has one stage.
  Estimate estimate(const Candidate& candidate, int64_t budget_bytes);

  // The layouts that a candidate with searched ones has, one decision a value
  // of the step; nullptr for other candidates. Throws UserError where none can
  // be found.
  const std::vector<Decision>* layouts_of(const Candidate& candidate);

  // What a rank computes at the least, however stages are cut; 0 where words
  // fit nothing.
  double least_seconds(const Candidate& candidate);

  // Bounds that are known without the candidate's own sample: by that of the
  // same words with the most rows in a micro-batch and nothing recomputed. All
  // numbers of micro-batches and all policies share it. 0 where there is no
  // such sample.
  //
  // No more than least_seconds, for a row takes the least time among many; 0
  // for a micro-batch that is the whole batch, too, which is larger yet.
  double floor_seconds(const Candidate& candidate);
  // What the fullest stage takes for parameters and optimizer states at the
  // least, however stages are cut.
  int64_t floor_bytes(const Candidate& candidate);

 private:
  const UnitTable& table(const SampleKey& key);
  const UnitTable* largest_table(const Candidate& candidate);
  const std::vector<Decision>& layouts(int64_t batch_parts, int64_t tensor);
  std::vector<UnitCost> searched_costs(const SampleKey& key);
  const Link& data_link(int64_t ranks, int64_t stride);
  // Runs `work`, and adds what that takes to the seconds of samples.
  template <typename Work>
  auto timed(const Work& work);

  const Graph& graph_;
  const Cluster& cluster_;
  StepUnits units_;
  Cuts cuts_;
  ShrunkStep shrunk_;
  Samples samples_;
  double sample_seconds_ = 0;
  std::map<SampleKey, UnitTable> tables_;
  // By parts of the batch and ranks that share one.
  std::map<std::pair<int64_t, int64_t>, std::vector<Decision>> layouts_;
  // Among so many ranks that are so far from each other.
  std::map<std::pair<int64_t, int64_t>, Link> links_;
};

}  // namespace weft
