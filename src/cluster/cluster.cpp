// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace weft {

std::string_view name(Work work) {
  switch (work) {
    case Work::Product:
      return "product";
    case Work::Attention:
      return "attention";
    case Work::AttentionBackward:
      return "attention_backward";
    case Work::Convolution:
      return "convolution";
    case Work::ConvolutionBackward:
      return "convolution_backward";
    case Work::Elementwise:
      return "elementwise";
    case Work::Exponential:
      return "exponential";
    case Work::Tangent:
      return "tangent";
    case Work::Memory:
      return "memory";
  }
  WEFT_CHECK(false, "unknown work");
}

namespace {

// A group's members, the first one's name filled in.
std::vector<Member> members(const Cluster& cluster, size_t group) {
  const Group& found = cluster.groups[group];
  std::string first = found.member;
  if (first.empty()) {
    first = group == 0 ? cluster.device.name : cluster.groups[group - 1].name;
  }
  std::vector<Member> all = {{first, found.count}};
  all.insert(all.end(), found.others.begin(), found.others.end());
  return all;
}

// The index of a group among those before `end`; `end` for a device.
size_t group_named(
    const Cluster& cluster, const std::string& name, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    if (cluster.groups[i].name == name) {
      return i;
    }
  }
  return end;
}

int64_t devices_in(const Cluster& cluster, size_t group) {
  int64_t devices = 0;
  for (const Member& member : members(cluster, group)) {
    const size_t inner = group_named(cluster, member.name, group);
    devices += member.count * (inner == group ? 1 : devices_in(cluster, inner));
  }
  return devices;
}

// One member of a group: what it is and its first rank.
struct Seat {
  std::string name;
  // Its group, or that of which it is a member, for a device.
  size_t group = 0;
  int64_t first_rank = 0;
};

// Where in `group`, whose first rank is `first`, the rank sits.
Seat seat_of(
    const Cluster& cluster, size_t group, int64_t first, int64_t rank) {
  for (const Member& member : members(cluster, group)) {
    const size_t inner = group_named(cluster, member.name, group);
    const int64_t each = inner == group ? 1 : devices_in(cluster, inner);
    if (rank < first + member.count * each) {
      return {member.name, inner, first + (rank - first) / each * each};
    }
    first += member.count * each;
  }
  WEFT_CHECK(false, "rank ", rank, " is not in group ", group);
}

const Device& device_named(const Cluster& cluster, const std::string& name) {
  for (const Device& device : cluster.other_devices) {
    if (device.name == name) {
      return device;
    }
  }
  return cluster.device;
}

void check_rank(const Cluster& cluster, int64_t rank) {
  const int64_t devices = device_count(cluster);
  WEFT_CHECK_USER(
      rank >= 0 && rank < devices,
      "cluster @",
      cluster.name,
      " has ",
      devices,
      " device(s) and none for rank ",
      rank);
}

const Link& link_of(
    const Group& group, const std::string& a, const std::string& b) {
  for (const Between& between : group.between) {
    if ((between.a == a && between.b == b) ||
        (between.a == b && between.b == a)) {
      return between.link;
    }
  }
  return group.link;
}

// Of several ways, the one that takes longest.
const Link& slowest_link(
    const Group& group, const std::map<int64_t, Seat>& seats) {
  const Link* slowest = nullptr;
  for (auto a = seats.begin(); a != seats.end(); ++a) {
    for (auto b = std::next(a); b != seats.end(); ++b) {
      const Link& link = link_of(group, a->second.name, b->second.name);
      if (slowest == nullptr ||
          link.bytes_per_second < slowest->bytes_per_second) {
        slowest = &link;
      }
    }
    // All pairs only where they may differ.
    if (group.between.empty()) {
      break;
    }
  }
  return slowest == nullptr ? group.link : *slowest;
}

}  // namespace

int64_t device_count(const Cluster& cluster) {
  return cluster.groups.empty()
             ? 1
             : devices_in(cluster, cluster.groups.size() - 1);
}

const Device& device_of(const Cluster& cluster, int64_t rank) {
  check_rank(cluster, rank);
  if (cluster.groups.empty() || cluster.other_devices.empty()) {
    return cluster.device;
  }
  size_t group = cluster.groups.size() - 1;
  int64_t first = 0;
  while (true) {
    const Seat seat = seat_of(cluster, group, first, rank);
    if (seat.group == group) {
      return device_named(cluster, seat.name);
    }
    group = seat.group;
    first = seat.first_rank;
  }
}

double price_per_hour(const Cluster& cluster) {
  const int64_t devices = device_count(cluster);
  if (cluster.other_devices.empty()) {
    return static_cast<double>(devices) * cluster.device.price_per_hour;
  }
  double price = 0;
  for (int64_t rank = 0; rank < devices; ++rank) {
    price += device_of(cluster, rank).price_per_hour;
  }
  return price;
}

void set_price_per_hour(Cluster& cluster, double price) {
  WEFT_CHECK_USER(
      std::isfinite(price) && price >= 0,
      "the price of a device is what an hour of it costs, as in 2.5, not ",
      price);
  cluster.device.price_per_hour = price;
  for (Device& device : cluster.other_devices) {
    device.price_per_hour = price;
  }
}

const MemoryTier* find_tier(const Cluster& cluster, std::string_view name) {
  for (const MemoryTier& tier : cluster.tiers) {
    if (tier.name == name) {
      return &tier;
    }
  }
  return nullptr;
}

double flops_per_second(const Device& device, DType dtype) {
  for (const Rate& rate : device.rates) {
    if (rate.dtype == dtype) {
      return rate.flops_per_second;
    }
  }
  WEFT_CHECK(!device.rates.empty(), "device ", device.name, " has no rates");
  return device.rates.front().flops_per_second;
}

namespace {

// The curve at a size; there must be points.
double share_at(
    const std::vector<std::pair<double, double>>& points, double size) {
  const auto above =
      std::find_if(points.begin(), points.end(), [size](const auto& point) {
        return point.first >= size;
      });
  if (above == points.begin()) {
    return above->second;
  }
  if (above == points.end()) {
    return points.back().second;
  }
  const auto below = std::prev(above);
  const double way =
      std::log(size / below->first) / std::log(above->first / below->first);
  return below->second + way * (above->second - below->second);
}

}  // namespace

double efficiency(
    const Link& link, std::string_view transfer, double taken_bytes) {
  for (const LinkEfficiency& found : link.efficiencies) {
    if (found.transfer == transfer && !found.points.empty()) {
      return share_at(found.points, taken_bytes);
    }
  }
  return 1;
}

double efficiency(const Device& device, Work work, double size) {
  for (const Efficiency& found : device.efficiencies) {
    if (found.work == work && !found.points.empty()) {
      return share_at(found.points, size);
    }
  }
  switch (work) {
    case Work::AttentionBackward:
      return efficiency(device, Work::Attention, size);
    case Work::ConvolutionBackward:
      return efficiency(device, Work::Convolution, size);
    default:
      return 1;
  }
}

Link link_between(const Cluster& cluster, const std::vector<int64_t>& ranks) {
  WEFT_CHECK(!ranks.empty());
  const auto [lowest, highest] =
      std::minmax_element(ranks.begin(), ranks.end());
  check_rank(cluster, *highest);
  check_rank(cluster, *lowest);
  WEFT_CHECK_USER(
      !cluster.groups.empty(),
      "cluster @",
      cluster.name,
      " is one device: it has no link");
  size_t group = cluster.groups.size() - 1;
  int64_t first = 0;
  while (true) {
    const Seat low = seat_of(cluster, group, first, *lowest);
    const Seat high = seat_of(cluster, group, first, *highest);
    if (low.first_rank != high.first_rank || low.group == group) {
      break;
    }
    group = low.group;
    first = low.first_rank;
  }
  std::map<int64_t, Seat> seats;
  std::map<int64_t, int64_t> on_seat;
  int64_t most = 1;
  for (const int64_t rank : ranks) {
    const Seat seat = seat_of(cluster, group, first, rank);
    seats[seat.first_rank] = seat;
    most = std::max(most, ++on_seat[seat.first_rank]);
  }
  Link link = slowest_link(cluster.groups[group], seats);
  const int64_t share = std::min(most, link.devices_per_link);
  link.bytes_per_second *=
      static_cast<double>(share) / static_cast<double>(link.devices_per_link);
  return link;
}

}  // namespace weft
