// SPDX-License-Identifier: Apache-2.0
// Short forms of plans: "data=2,tensor=2,sequence,zero=3". `expand` writes the
// plan that they stand for, by the structure of a step and the rules of the op
// table; docs/parallel.md has an example of every word.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Parallel {
  // `data=N`: ranks that each take a part of the batch.
  int64_t data = 1;
  // `tensor=N`: parameters of products are split by columns, then by rows, so
  // that what lies between needs no exchange. One number; `2x2` and `2x2x2` are
  // two and three, and split every product and what lies between over as many
  // axes.
  std::vector<int64_t> tensor = {};
  // `sequence`: between such pairs, values are split along the sequence over
  // the axis of `tensor`.
  bool sequence = false;
  // `vocabulary=off`: tables that the batch looks up and the output layer stay
  // whole, which `tensor` else splits.
  bool vocabulary = true;
  // `context=N`: the sequence of everything is split.
  int64_t context = 1;
  // `ulysses=N`: likewise, and attention is split by heads.
  int64_t ulysses = 1;
  // `expert=N`: parameters that are one matrix an expert are split by experts;
  // all else takes the axis for one more part of the batch.
  int64_t expert = 1;
  // `seats=N`: the experts of a rank have room for N times their even share of
  // each sample's choices, where rows are sorted by expert; 0: for all.
  int64_t seats = 0;
  // `spatial=2x2`: dims of signals, images or volumes after the channels.
  std::vector<int64_t> spatial = {};
  // `zero=1`: optimizer states are split over `data`; 2: gradients too, as soon
  // as they are made; 3: parameters too, gathered before use.
  int zero = 0;
  // `shard=N`: `zero` splits over N ranks of `data` and not over all of them.
  int64_t shard = 1;

  // `pipeline=N`: the step is cut into stages, which N groups of ranks take.
  int64_t pipeline = 1;
  // `stages=N`: how many there are; 0: as many as the schedule needs.
  int64_t stages = 0;
  // `schedule=NAME`: in which order they work on parts of the batch. A name, or
  // the path of a file, which is then also in `own_schedule`.
  std::string schedule = Plan().schedule;
  std::optional<Schedule> own_schedule = std::nullopt;
  // `micro-batches=N`: parts of each rank's batch that go through one after the
  // other.
  int64_t micro_batches = 1;
  // `slices=N`: parts of the sequence that go through one after the other, each
  // seeing those before it.
  int64_t slices = 1;
  // `slices=96:64:48`: how long they are to each other; empty: equally.
  std::vector<int64_t> slice_shares = {};
  // `slices=auto`: as many and as long as is best by token_slices.h.
  bool slices_are_chosen = false;

  bool operator==(const Parallel&) const = default;
};

// Only what differs from one rank, in the order above.
std::string print(const Parallel& parallel);
// `source` names the text in messages. A schedule's file is read, and says how
// many stages and micro-batches there are where no word does. Throws UserError
// with the list of words.
Parallel parse_parallel(std::string_view text, const std::string& source);
// Throws UserError for words that contradict each other.
void verify(const Parallel& parallel);

// Of the mesh.
int64_t rank_count(const Parallel& parallel);
// Whether the sequence is split over time.
bool has_slices(const Parallel& parallel);
// Of the pipeline: as many as are said, or as the schedule needs.
int64_t stage_count(const Parallel& parallel);

// The plan for the step of `graph`; it verifies. Values that are cheap to make
// again are. Rows of a batch that does not divide go to ranks as evenly as may
// be; one with fewer rows than ranks, or that does not divide where its
// sequence is split too, is whole on every rank, which is as exact and no
// faster; so is every parameter that a word does not fit. Throws UserError when
// a word fits nothing of the step. `device`: where it should be fast.
Plan expand(
    const Parallel& parallel,
    const Graph& graph,
    const Device& device = one_core());
// The same where layouts on the axes `data` and `tensor` are known already, one
// decision a value of the step by its name: in place of what `tensor` and
// `sequence` would split. States and gradients follow their parameters.
Plan expand(
    const Parallel& parallel,
    const std::vector<Decision>& layouts,
    const Graph& graph,
    const Device& device = one_core());

}  // namespace weft
