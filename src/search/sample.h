// SPDX-License-Identifier: Apache-2.0
// What each unit of a step costs one rank for one micro-batch.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "search/recompute_policy.h"
#include "search/units.h"

#include <cstdint>
#include <vector>

namespace weft {

// How a micro-batch is computed: all that layouts of a layer depend on.
struct SampleKey {
  // Into how many parts the batch is cut, over ranks and over time.
  int64_t batch_parts = 1;
  int64_t tensor = 1;
  bool sequence = false;
  int64_t context = 1;
  int64_t expert = 1;
  RecomputePolicy recompute = RecomputePolicy::Cheap;

  auto operator<=>(const SampleKey&) const = default;
};

struct UnitCost {
  // With the exchanges among ranks that share the micro-batch, as far as
  // nothing hides them.
  double forward_seconds = 0;
  // With what is made again.
  double backward_seconds = 0;
  double again_seconds = 0;
  // Of the exchanges alone, hidden or not.
  double transfer_seconds = 0;
  // Of its parameters, all on this rank.
  double update_seconds = 0;
  // What forward leaves for backward.
  int64_t kept_bytes = 0;
  // What else lives at the same time, at the most; without gradients.
  int64_t temporary_bytes = 0;
  // What later units read of it and of those before it.
  int64_t output_bytes = 0;
  // Of this rank, when nothing of them is split over `data`.
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t state_bytes = 0;
};

// By unit. The step is laid out and lowered for one rank (lower_first_rank),
// and its instructions are played through with the cluster's costs; exchanges
// over `data` are left out. Throws UserError where a word fits nothing.
std::vector<UnitCost> sample_costs(
    const Graph& graph,
    const StepUnits& units,
    const SampleKey& key,
    const Cluster& cluster);

// The words of the key alone, with `data` for the parts.
Parallel words_of(const SampleKey& key);

}  // namespace weft
