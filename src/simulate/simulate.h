// SPDX-License-Identifier: Apache-2.0
// Program + Cluster -> Timeline, by arithmetic: nothing is run.
#pragma once

#include "cluster/cluster.h"
#include "profile/node_costs.h"
#include "program/program.h"
#include "program/timeline.h"

namespace weft {

// The longer of a node's flops at the device's rate for `dtype` and its bytes
// at the memory's, and at least what any call costs.
double call_seconds(const NodeCosts& costs, DType dtype, const Device& device);

// A ring: every rank sends 2 (n - 1) / n of the bytes in 2 (n - 1) messages.
double all_reduce_seconds(int64_t ranks, int64_t bytes, const Link& link);

// Throws UserError when the program has more ranks than the cluster devices.
Timeline simulate(const Program& program, const Cluster& cluster);

}  // namespace weft
