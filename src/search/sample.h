// SPDX-License-Identifier: Apache-2.0
// What each unit of a step costs one rank for one micro-batch.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/parallel.h"
#include "program/program.h"
#include "search/recompute_policy.h"
#include "search/units.h"

#include <cstddef>
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
  int64_t seats = 0;
  // With layouts along `tensor` that were searched (layout_plan.h), in place of
  // those that the word stands for.
  bool has_searched_layouts = false;
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
  // Of its parameters, all on this rank, with what is done once for all
  // micro-batches to make their gradients.
  double update_seconds = 0;
  // What forward leaves for backward.
  int64_t kept_bytes = 0;
  // What the gradients of its weights are made from, whoever makes it: what is
  // kept of a micro-batch whose other gradients are made, where a schedule lets
  // these wait.
  int64_t waiting_bytes = 0;
  // What else lives at the same time, at the most; without gradients.
  int64_t temporary_bytes = 0;
  // What later units read of it and of those before it.
  int64_t output_bytes = 0;
  // Of this rank, when nothing of them is split over `data`.
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t state_bytes = 0;
  // Of the gradients, those that are sums over `data`. The others are made from
  // all rows, which is less to send where there are few: of a micro-batch, what
  // this rank gives of them.
  int64_t summed_bytes = 0;
  int64_t given_bytes = 0;
};

// The step laid out and lowered for one rank (lower_first_rank). Throws
// UserError where a word fits nothing.
Program lower_sample(
    const Graph& graph,
    const StepUnits& units,
    const SampleKey& key,
    const Device& device);

// From when to when a storage lives, as numbers of instructions.
struct StorageLife {
  size_t made = 0;
  size_t freed = 0;
  // The last unit of forward that reads it.
  int32_t last_unit = -1;
  bool is_made = false;
  bool is_gradient = false;
  // Over `data`.
  bool is_summed = false;
  // From forward to backward.
  bool is_kept = false;
};

// A storage of the device that is made or given back.
struct StorageChange {
  size_t instruction = 0;
  ValueId storage = ValueId::None;
  bool is_made = false;
};

// What a program is for the search, whatever the sizes of its values.
struct SampleShape {
  // By value, where it lies.
  std::vector<ValueId> storage;
  // By instruction.
  std::vector<int32_t> units;
  std::vector<Phase> phases;
  // By value that is a storage.
  std::vector<StorageLife> lives;
  // By value, the first unit that makes gradients of weights from it; -1: none
  // does. What is written over in its place would be kept apart, if these wait.
  std::vector<int32_t> weight_units;
  std::vector<StorageChange> changes;
};
SampleShape sample_shape(const Program& program, const StepUnits& units);

// By unit: the program's instructions played through with the cluster's costs;
// exchanges over `data` are left out.
std::vector<UnitCost> play_sample(
    const Program& program,
    const SampleShape& shape,
    const StepUnits& units,
    const SampleKey& key,
    const Cluster& cluster);

// All of it.
std::vector<UnitCost> sample_costs(
    const Graph& graph,
    const StepUnits& units,
    const SampleKey& key,
    const Cluster& cluster);

// The words of the key alone, with `data` for the parts.
Parallel words_of(const SampleKey& key);

}  // namespace weft
