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

// What a transfer among so many ranks takes when each takes `taken_bytes` from
// the others (wire_bytes): an all_reduce in a ring of 2 (n - 1) messages, the
// other collectives in n - 1, a send in one. Not for copies.
double transfer_seconds(
    TransferKind kind, int64_t ranks, int64_t taken_bytes, const Link& link);

// Between the device and its host: reading and writing at the rate of the
// memory, for a Cluster knows no link between them.
double copy_seconds(int64_t bytes, const Device& device);

// Throws UserError when the program has more ranks than the cluster devices.
Timeline simulate(const Program& program, const Cluster& cluster);

}  // namespace weft
