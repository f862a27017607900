// SPDX-License-Identifier: Apache-2.0
// One way to run a step: what the search chooses between.
#pragma once

#include "plan/parallel.h"
#include "search/recompute_policy.h"
#include "search/sample.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct Candidate {
  Parallel words;
  RecomputePolicy recompute = RecomputePolicy::Cheap;
  // Layers for which that leaves no room are made again whole.
  bool may_mix = true;
  // As in SampleKey.
  bool has_searched_layouts = false;

  bool operator==(const Candidate&) const = default;
};

// "data=2,tensor=2,recompute=full".
std::string print(const Candidate& candidate);

// How its micro-batches are computed.
SampleKey key_of(const Candidate& candidate, RecomputePolicy recompute);

// Ranks that each micro-batch is shared by.
int64_t ranks_a_part(const Candidate& candidate);

// What the memory of a rank is made of.
struct MemoryParts {
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t state_bytes = 0;
  // Of all micro-batches at once.
  int64_t kept_bytes = 0;
  int64_t temporary_bytes = 0;
};
int64_t total(const MemoryParts& parts);

// What a candidate would take.
struct Estimate {
  double step_seconds = 0;
  // No less than this: what the busiest rank computes, and how long its wires
  // are taken.
  double busy_seconds = 0;
  double wire_seconds = 0;
  // Of step_seconds: stages that wait for each other, what is made again,
  // exchanges of gradients and parameters that nothing hides, updates.
  double bubble_seconds = 0;
  double again_seconds = 0;
  double exchange_seconds = 0;
  double update_seconds = 0;
  // Of busy_seconds: exchanges among ranks that share a micro-batch.
  double transfer_seconds = 0;
  // Of the fullest stage.
  MemoryParts memory;
  int64_t fullest_stage = 0;
  // The first unit of every stage.
  std::vector<int32_t> stage_starts;
  // By unit.
  std::vector<RecomputePolicy> recompute;
  // Why it is impossible, as "stage 0 needs 91.2 GiB of 80 GiB"; else empty.
  std::string reason;
  // It would be possible with as much memory; 0 when memory is not the reason.
  int64_t needed_bytes = 0;
};

}  // namespace weft
