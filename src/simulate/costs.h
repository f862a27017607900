// SPDX-License-Identifier: Apache-2.0
// What one call, transfer or copy takes on a device or link: the only place
// where a Cluster's figures become seconds.
#pragma once

#include "cluster/cluster.h"
#include "profile/node_costs.h"
#include "program/program.h"

#include <cstdint>
#include <deque>
#include <vector>

namespace weft {

// Bytes that a call reads or writes, and how many were moved since they were
// used last.
struct Use {
  int64_t bytes = 0;
  int64_t since_bytes = 0;
};

// What the device works at a call: the longer of its flops and its bytes, each
// at the rate that its kind and the size of its parts reach, after what any
// call costs. Nothing where no kernel is called. `uses` are those of its bytes
// that are known: where caches make small sizes fast, each has to be fetched
// first at the rate of as much as was moved in between, and no core computes
// meanwhile.
double call_seconds(
    const NodeCosts& costs,
    DType dtype,
    const Device& device,
    const std::vector<Use>& uses = {});

// Of flops alone. On a device with tiles, in rounds of one tile a unit, with
// the tiles that take least.
double product_seconds(
    const ProductSize& size, DType dtype, const Device& device);

// What a transfer among so many ranks takes when each takes `taken_bytes` from
// the others (wire_bytes): an all_reduce in a ring of 2 (n - 1) messages, the
// other collectives in n - 1, a send in one. Not for copies.
double transfer_seconds(
    TransferKind kind, int64_t ranks, int64_t taken_bytes, const Link& link);

// Between the device and its host: by the link of the tier "host", or without
// one by reading and writing at the rate of the memory.
double copy_seconds(int64_t bytes, const Cluster& cluster);

// The host of a device issues calls ahead of it, but not too far. On a device
// whose calls are not issued ahead it does nothing.
class HostClock {
 public:
  // Issues a call or transfer; returns when the device can begin with it.
  double issue(const Device& device);
  // The call that was issued last will be done then.
  void ends_at(const Device& device, double seconds);

 private:
  double now_seconds_ = 0;
  // When those end that the host has issued and may not run away from.
  std::deque<double> ends_;
};

}  // namespace weft
