// SPDX-License-Identifier: Apache-2.0
#include "simulate/costs.h"

#include "base/error.h"

namespace weft {

double transfer_seconds(
    TransferKind kind, int64_t ranks, int64_t taken_bytes, const Link& link) {
  int64_t messages = 0;
  switch (kind) {
    case TransferKind::AllReduce:
      messages = 2 * (ranks - 1);
      break;
    case TransferKind::AllGather:
    case TransferKind::ReduceScatter:
    case TransferKind::AllToAll:
      messages = ranks - 1;
      break;
    case TransferKind::Send:
    case TransferKind::Receive:
      messages = 1;
      break;
    case TransferKind::Copy:
      WEFT_CHECK(false, "a copy takes no link");
  }
  const auto bytes = static_cast<double>(taken_bytes);
  const double share = efficiency(
      link,
      name(kind == TransferKind::Receive ? TransferKind::Send : kind),
      bytes);
  return link.start_seconds +
         static_cast<double>(messages) * link.latency_seconds +
         bytes / (link.bytes_per_second * share);
}

double copy_seconds(int64_t bytes, const Cluster& cluster) {
  const MemoryTier* host = find_tier(cluster, "host");
  if (host == nullptr) {
    return 2 * static_cast<double>(bytes) /
           cluster.device.memory_bytes_per_second;
  }
  const Link& link = host->link;
  return link.start_seconds + link.latency_seconds +
         static_cast<double>(bytes * link.devices_per_link) /
             link.bytes_per_second;
}

double HostClock::issue(const Device& device) {
  if (device.launch_seconds == 0) {
    return 0;
  }
  now_seconds_ += device.launch_seconds;
  if (ends_.size() == static_cast<size_t>(device.run_ahead_calls)) {
    now_seconds_ = std::max(now_seconds_, ends_.front());
    ends_.pop_front();
  }
  return now_seconds_;
}

void HostClock::ends_at(const Device& device, double seconds) {
  if (device.launch_seconds > 0) {
    ends_.push_back(seconds);
  }
}

}  // namespace weft
