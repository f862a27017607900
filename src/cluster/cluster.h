// SPDX-License-Identifier: Apache-2.0
// The Cluster: the machines as data. Kinds of devices, what lies behind each
// (host memory, disk), and groups of them joined by links, from the inside
// out. Text form; a line with a comment may be left out:
//
//   cluster @pod
//   device cpu
//     flops_per_second f32 = 4.0e10
//     memory_bytes = 12884901888
//     memory_bytes_per_second = 8.0e9
//     call_seconds = 4.0e-06
//     launch_seconds = 2.0e-05          // 0: calls are not issued ahead
//     run_ahead_calls = 64              // how far ahead, at most
//     price_per_hour = 2.5              // of one device, in any money
//     units = 108                       // product tiles at a time
//     tile 128 x 128 = 0.8              // share of the rate with such tiles
//     ramp_depth = 64                   // a tile's start, as depth of products
//     efficiency product 1e+06 = 0.5    // share of a rate at a size
//     efficiency product 1e+09 = 0.9
//     efficiency memory 1e+05 = 0.8
//   tier host                           // behind every device
//     memory_bytes = 68719476736
//     read_bytes_per_second = 1.0e10    // back; else as fast as there
//     latency_seconds = 1.0e-05
//     bytes_per_second = 1.2e10
//     devices_per_link = 2              // 1: every device has its own
//   group node = 2 x cpu
//     latency_seconds = 3.0e-05
//     bytes_per_second = 1.0e9
//     start_seconds = 1.0e-05           // 0: a transfer is its messages
//     device_share = 0.5                // 0: devices go on meanwhile
//     efficiency send 1e+06 = 0.8       // share of bytes_per_second at a size
//   group pod = 4 x node
//     latency_seconds = 2.0e-04
//     bytes_per_second = 1.2e8
//     devices_per_link = 2
//
// Machines that are not alike: several kinds of devices, groups of any earlier
// groups, and links that differ between two of the members:
//
//   group world = 2 x node + 1 x big_node
//     latency_seconds = 2.0e-04
//     bytes_per_second = 1.2e8
//     between node big_node
//       latency_seconds = 1.0e-02
//       bytes_per_second = 1.0e7
//
// Ranks are numbered with the innermost group varying fastest, members in the
// order of the text: here 0 and 1 share a node.
#pragma once

#include "graph/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// How fast a device multiplies and adds numbers of one type.
struct Rate {
  DType dtype = DType::F32;
  double flops_per_second = 0;

  bool operator==(const Rate&) const = default;
};

// What keeps a device from its rates depends on what it does.
enum class Work : uint8_t {
  Product,    // matrix products; sizes in flops, shares of flops_per_second
  Attention,  // the same; scores and their sums in one call
  AttentionBackward,
  Convolution,  // the same
  ConvolutionBackward,
  Elementwise,  // the same, for all that is not a product
  // A function an element that is many operations; its elements count as flops.
  Exponential,  // exp, log, erf, sigmoid
  Tangent,      // tanh, sines, powers
  Memory,       // bytes moved, whatever for; of memory_bytes_per_second
};
inline constexpr Work kWorks[] = {
    Work::Product,
    Work::Attention,
    Work::AttentionBackward,
    Work::Convolution,
    Work::ConvolutionBackward,
    Work::Elementwise,
    Work::Exponential,
    Work::Tangent,
    Work::Memory};
std::string_view name(Work work);

// The share of a rate that work of some size reaches: between two points, in
// proportion to the logarithm of the size; beyond them, as at the nearest.
// Above 1 where caches are faster than memory. No points: 1, and of a backward
// as of its forward.
struct Efficiency {
  Work work = Work::Product;
  // Size and share, sizes growing.
  std::vector<std::pair<double, double>> points;

  bool operator==(const Efficiency&) const = default;
};

// Products are made a tile at a time by each unit, and the last round of tiles
// may leave units idle.
struct Tile {
  int64_t rows = 0;
  int64_t columns = 0;
  double efficiency = 1;

  bool operator==(const Tile&) const = default;
};

// One kind of processor, with its memory.
struct Device {
  std::string name;
  // At least one; types that are not listed run at the first one's rate.
  std::vector<Rate> rates;
  int64_t memory_bytes = 0;
  double memory_bytes_per_second = 0;
  // What one operator call costs the device however little it does.
  double call_seconds = 0;
  // What issuing a call costs its host, which runs ahead of the device.
  double launch_seconds = 0;
  int64_t run_ahead_calls = 0;
  // In any money; 0: nobody said.
  double price_per_hour = 0;
  // No tiles: products have their efficiency by size alone.
  int64_t units = 0;
  double ramp_depth = 0;
  std::vector<Tile> tiles = {};
  // At most one of each kind.
  std::vector<Efficiency> efficiencies = {};

  bool operator==(const Device&) const = default;
};

// Transfers of which a link may have efficiencies.
inline constexpr std::string_view kTransfers[] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"};

// The share of a link's rate that a transfer reaches, as Efficiency is of
// devices; sizes are the bytes that a rank takes.
struct LinkEfficiency {
  std::string transfer;
  std::vector<std::pair<double, double>> points;

  bool operator==(const LinkEfficiency&) const = default;
};

// What a message of n bytes takes: latency_seconds + n / bytes_per_second, in
// one direction.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  // Once for every transfer, whatever its messages.
  double start_seconds = 0;
  // Of a transfer's time, what it takes from the device's own work: where cores
  // that compute also copy.
  double device_share = 0;
  // So many share bytes_per_second when all of them talk.
  int64_t devices_per_link = 1;
  // At most one of each kind; those that are not there reach all of the rate.
  std::vector<LinkEfficiency> efficiencies = {};

  bool operator==(const Link&) const = default;
};

// Memory behind every device: "host", then "disk".
struct MemoryTier {
  std::string name;
  // Of one device's share.
  int64_t memory_bytes = 0;
  // To it; and back, 0: the same rate.
  Link link;
  double read_bytes_per_second = 0;

  bool operator==(const MemoryTier&) const = default;
};

// `count` devices or groups of the same name.
struct Member {
  std::string name;
  int64_t count = 1;

  bool operator==(const Member&) const = default;
};

// Another link between two members of a group.
struct Between {
  std::string a;
  std::string b;
  Link link;

  bool operator==(const Between&) const = default;
};

// `count` members (devices, or groups of the level inside) on one link.
struct Group {
  std::string name;
  int64_t count = 1;
  Link link;
  // What the `count` are; empty: what stands just before this group.
  std::string member = {};
  // Behind them.
  std::vector<Member> others = {};
  std::vector<Between> between = {};

  bool operator==(const Group&) const = default;
};

struct Cluster {
  std::string name;
  // The first kind, and the others.
  Device device;
  std::vector<Device> other_devices;
  std::vector<MemoryTier> tiers;
  // Innermost first, the last holds all; none is a single device.
  std::vector<Group> groups;

  bool operator==(const Cluster&) const = default;
};

// A core of a machine such as most people have, for guesses where nobody has
// said what there is.
Device one_core();

int64_t device_count(const Cluster& cluster);
// What the rank runs on. Throws UserError when it is beyond the devices.
const Device& device_of(const Cluster& cluster, int64_t rank);
// Of all devices together; 0 where nobody said what one costs.
double price_per_hour(const Cluster& cluster);
// Of each device of whatever kind. Throws UserError for a price below 0.
void set_price_per_hour(Cluster& cluster, double price);
// nullptr when there is no such tier.
const MemoryTier* find_tier(const Cluster& cluster, std::string_view name);
double flops_per_second(const Device& device, DType dtype);
// Of the rate that `work` has, at a size as Work tells.
double efficiency(const Device& device, Work work, double size);
double efficiency(
    const Link& link, std::string_view transfer, double taken_bytes);

// The link of the innermost group that holds all of `ranks`, with the rate that
// they have of it when every device does the same: of a link for 8 devices, an
// eighth if one of `ranks` sits on it. Throws UserError when a rank is beyond
// the cluster's devices.
Link link_between(const Cluster& cluster, const std::vector<int64_t>& ranks);

std::string print(const Cluster& cluster);
// `source` names the text in messages. Throws UserError with line and column.
Cluster parse_cluster(std::string_view text, const std::string& source);
// Names well-formed, known and unique, counts and rates positive. Throws
// UserError.
void verify(const Cluster& cluster);

// "2x8xA100-80G" (nodes x devices x kind), "8xA100-80G": a cluster of a known
// kind of device; nullopt for a name that is not of that form. Throws UserError
// for a kind that is not known, with those that are.
std::optional<Cluster> cluster_preset(std::string_view name);

// A preset's name, or the path of a cluster file.
Cluster load_cluster(const std::string& name_or_path);

}  // namespace weft
