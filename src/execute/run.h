// SPDX-License-Identifier: Apache-2.0
// Runs a Program on tensors from a file. Without LibTorch in its interface.
#pragma once

#include "execute/rendezvous.h"
#include "program/program.h"
#include "program/timeline.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct RunOptions {
  // A safetensors file with the whole inputs, named "<kind>/<key>" as in
  // "batch/0", "parameter/head.weight", "scalar/lr.0". State that is not in it
  // starts at zero.
  std::string inputs;
  // Where rank 0 writes what the last step returned, whole, named "loss",
  // "gradient/head.weight", ...; empty: nowhere.
  std::string outputs;
  // Every step reads the same batch; parameters, buffers and states go from
  // step to step.
  int64_t steps = 1;
  uint64_t seed = 0;
  // Threads inside one operator.
  int threads = 1;
  // The most memory that the rank may use; 0: no limit.
  int64_t budget_bytes = 0;
};

struct RunResult {
  // One a step.
  std::vector<double> losses;
  // Of the last step, of all ranks.
  Timeline timeline;
  // What rank 0 used (see Executor).
  int64_t used_bytes = 0;
  int64_t overflow_bytes = 0;
};

// Runs this process's rank; every rank of the program must call it. The result
// is there on rank 0; the others get nullopt. Throws UserError when an input is
// missing or has another type, and when the number of ranks is not the
// program's.
std::optional<RunResult> run(
    const Program& program,
    const Rendezvous& rendezvous,
    const RunOptions& options);

}  // namespace weft
