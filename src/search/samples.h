// SPDX-License-Identifier: Apache-2.0
// What the units of a step cost under many keys, with as few programs lowered
// as will do: for keys that differ in the size of their micro-batches alone,
// most are made from two (resize.h).
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "search/resize.h"
#include "search/sample.h"
#include "search/units.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

class Samples {
 public:
  // Keeps references to all of them. `units` are those of the graph's step.
  Samples(const Graph& graph, const StepUnits& units, const Cluster& cluster);

  // As sample_costs of the key, whatever was asked for before. Throws UserError
  // where a word fits nothing.
  std::vector<UnitCost> costs(const SampleKey& key);

  // How many programs were lowered so far.
  int64_t lowered() const { return lowered_; }

 private:
  // A program, or why there is none.
  struct Lowered {
    SizedProgram sized;
    SampleShape shape;
    std::string reason;
  };
  // What can be made of two neighbours.
  struct Between {
    std::optional<ResizableProgram> program;
    const SampleShape* shape = nullptr;
  };
  // Keys that differ in batch_parts alone.
  struct Family {
    // By rows of a micro-batch.
    std::map<int64_t, Lowered> lowered;
    // By the rows of two that are neighbours in `lowered`.
    std::map<std::pair<int64_t, int64_t>, Between> between;
  };

  Family& family_of(const SampleKey& key);
  Lowered lower(const SampleKey& key) const;
  void lower_around(const SampleKey& key);
  Between* between(Family& family, int64_t rows) const;

  const Graph& graph_;
  const StepUnits& units_;
  const Cluster& cluster_;
  const int64_t rows_;
  // The fewest parts, but for one, that the batch can be cut into.
  const int64_t fewest_parts_;
  // By policy, the first that makes the same again of this step.
  std::map<RecomputePolicy, RecomputePolicy> same_policy_;
  std::map<SampleKey, Family> families_;
  int64_t lowered_ = 0;
};

}  // namespace weft
