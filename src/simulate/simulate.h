// SPDX-License-Identifier: Apache-2.0
// Program + Cluster -> Timeline, by arithmetic: nothing is run.
#pragma once

#include "cluster/cluster.h"
#include "program/program.h"
#include "program/timeline.h"
#include "simulate/costs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Throws UserError when the program has more ranks than the cluster devices.
Timeline simulate(const Program& program, const Cluster& cluster);

// What a rank does with a step's time; the parts add up to it.
struct TimeShares {
  double compute_seconds = 0;
  double recompute_seconds = 0;
  // Transfers under way that it waits for.
  double communication_seconds = 0;
  // Waiting for other ranks: to start their part of a transfer, or to end.
  double bubble_seconds = 0;
  // Waiting for the host to issue calls.
  double host_seconds = 0;

  bool operator==(const TimeShares&) const = default;
};

// A step without the events of every rank.
struct StepSummary {
  double step_seconds = 0;
  // The mean over all ranks.
  TimeShares times;
  // The most live bytes of a rank, on which it is, and at what.
  int64_t peak_bytes = 0;
  int64_t peak_rank = 0;
  std::string peak_label;
  // How many ranks there are that differ in what they do.
  int64_t classes = 0;
};

// As simulate() does, but time and memory do not grow with ranks that do the
// same.
StepSummary summarize(const Program& program, const Cluster& cluster);

}  // namespace weft
