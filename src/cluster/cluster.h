// SPDX-License-Identifier: Apache-2.0
// The Cluster: the machines as data. One kind of device, and groups of them
// joined by links, from the inside out. Text form:
//
//   cluster @pod
//   device cpu
//     flops_per_second f32 = 4.0e10
//     memory_bytes = 12884901888
//     memory_bytes_per_second = 8.0e9
//     call_seconds = 4.0e-06
//   group node = 2 x cpu
//     latency_seconds = 3.0e-05
//     bytes_per_second = 1.0e9
//   group pod = 4 x node
//     latency_seconds = 2.0e-04
//     bytes_per_second = 1.2e8
//
// Ranks are numbered with the innermost group varying fastest: here 0 and 1
// share a node.
#pragma once

#include "graph/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// How fast a device multiplies and adds numbers of one type.
struct Rate {
  DType dtype = DType::F32;
  double flops_per_second = 0;

  bool operator==(const Rate&) const = default;
};

// One kind of processor, with its memory.
struct Device {
  std::string name;
  // At least one; types that are not listed run at the first one's rate.
  std::vector<Rate> rates;
  int64_t memory_bytes = 0;
  double memory_bytes_per_second = 0;
  // What one operator call costs however little it does.
  double call_seconds = 0;

  bool operator==(const Device&) const = default;
};

// What a message of n bytes takes: latency_seconds + n / bytes_per_second, in
// one direction.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;

  bool operator==(const Link&) const = default;
};

// `count` members (devices, or groups of the level inside) on one link.
struct Group {
  std::string name;
  int64_t count = 1;
  Link link;

  bool operator==(const Group&) const = default;
};

struct Cluster {
  std::string name;
  Device device;
  // Innermost first; none is a single device.
  std::vector<Group> groups;

  bool operator==(const Cluster&) const = default;
};

// A core of a machine such as most people have, for guesses where nobody has
// said what there is.
Device one_core();

int64_t device_count(const Cluster& cluster);
double flops_per_second(const Device& device, DType dtype);

// The link of the innermost group that holds all of `ranks`. Throws UserError
// when a rank is beyond the cluster's devices.
const Link& link_between(
    const Cluster& cluster, const std::vector<int64_t>& ranks);

std::string print(const Cluster& cluster);
// `source` names the text in messages. Throws UserError with line and column.
Cluster parse_cluster(std::string_view text, const std::string& source);
// Names well-formed and unique, counts and rates positive. Throws UserError.
void verify(const Cluster& cluster);

// "2x8xA100-80G" (nodes x devices x kind), "8xA100-80G": a cluster of a known
// kind of device; nullopt for a name that is not of that form. Throws UserError
// for a kind that is not known, with those that are.
std::optional<Cluster> cluster_preset(std::string_view name);

// A preset's name, or the path of a cluster file.
Cluster load_cluster(const std::string& name_or_path);

}  // namespace weft
