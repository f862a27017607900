// SPDX-License-Identifier: Apache-2.0
// What the units of a step cost under many keys, with as few programs lowered
// as will do: for keys that differ in the size of their micro-batches alone,
// most are made from two (resize.h).
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "lower/lowering_memo.h"
#include "plan/plan.h"
#include "search/resize.h"
#include "search/sample.h"
#include "search/units.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft {

class Samples {
 public:
  // Keeps references to all of them. `units` are those of the graph's step.
  Samples(const Graph& graph, const StepUnits& units, const Cluster& cluster);

  // Will be asked for, too, with whatever policy: what is lowered is chosen by
  // that, and never what comes of it.
  void expect(const SampleKey& key);

  // The key with the most rows in a micro-batch that its words allow, but for
  // the whole batch, and nothing recomputed. None where the words fit nothing.
  // The first call lowers that of all keys that are expected.
  std::optional<SampleKey> largest(const SampleKey& key);

  // As sample_costs of the key, whatever was asked for before. Throws UserError
  // where a word fits nothing.
  std::vector<UnitCost> costs(const SampleKey& key);

  // The fewest parts, but for one, that the batch can be cut into.
  int64_t fewest_parts() const { return fewest_parts_; }

  // How many programs were lowered so far, and how often the step was laid out
  // as it is: once for all policies.
  int64_t lowered() const { return lowered_; }
  int64_t laid_out() const { return memo_->laid_out_count(); }

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
  // The words of keys that differ in their policy alone, expanded.
  struct Words {
    std::once_flag is_expanded;
    Plan plan;
  };

  Lowered lower(const SampleKey& key, Words& words) const;
  void lower_around(const SampleKey& key);
  void fill_cores(std::vector<SampleKey>& keys, const SampleKey& key);
  void lower_all(const std::vector<SampleKey>& keys);
  SampleKey with_most_rows(SampleKey key) const;
  std::vector<SampleKey> keys_around(const SampleKey& key);
  std::vector<SampleKey> unknown_policies(const SampleKey& key);
  Words& words_of(const SampleKey& key);
  Between* between(Family& family, int64_t rows) const;

  const Graph& graph_;
  const StepUnits& units_;
  const Cluster& cluster_;
  const int64_t rows_;
  const int64_t fewest_parts_;
  // By policy, the first that makes the same again of this step.
  std::map<RecomputePolicy, RecomputePolicy> same_policy_;
  // Of each of these, what is made again.
  std::map<RecomputePolicy, Plan> again_;
  std::map<SampleKey, Family> families_;
  std::map<SampleKey, Words> words_;
  // All of RecomputePolicy::None.
  std::set<SampleKey> expected_;
  // What lowerings of the step have in common.
  const std::shared_ptr<LoweringMemo> memo_;
  int64_t lowered_ = 0;
};

}  // namespace weft
