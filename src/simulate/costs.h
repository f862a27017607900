// SPDX-License-Identifier: Apache-2.0
// What one transfer or copy takes on a link, and when a host has issued a call;
// what a call takes is profile/call_seconds.h.
#pragma once

#include "cluster/cluster.h"
#include "program/program.h"

#include <cstdint>
#include <deque>

namespace weft {

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
