// SPDX-License-Identifier: Apache-2.0
// Clusters of well-known devices. Peak rates, memory and links are those of the
// makers' data sheets; the server around a device is the maker's own:
//   V100      NVIDIA V100 data sheet (SXM2, 32 GB); DGX-1 user guide
//   A100-40G  NVIDIA A100 data sheet (SXM4); DGX A100 data sheet
//   A100-80G  the same
//   H100      NVIDIA H100 data sheet (SXM5); DGX H100 data sheet
//   H200      NVIDIA H200 data sheet (SXM5); DGX H200 data sheet
//   B200      NVIDIA DGX B200 data sheet
//   RTX4090   NVIDIA Ada architecture white paper; a workstation, PCIe 4
// Rates are dense, with sums in f32, and f32 without TF32. How much of them is
// reached was learnt from measured A100 runs (docs/cluster.md, decision 0019)
// and taken over for the others, of which nobody has measured enough.
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "cluster/cluster.h"

#include <filesystem>

namespace weft {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

// What a ring of transfers reaches of a link's rate.
constexpr double kWithinShare = 0.80;
constexpr double kAcrossShare = 0.80;

struct Preset {
  std::string_view name;
  // Of 16 bit floats on tensor cores, of f32, of f64.
  double half_flops, single_flops, double_flops;
  bool has_bf16;
  int64_t memory_gib;
  double memory_rate;
  int64_t units;
  // Between devices of a node, in one direction.
  double within_rate;
  // Adapters of a node.
  std::string_view adapters;
  // To the host, in one direction, and how many devices share it.
  double host_rate;
  int64_t devices_per_host_link;
  int64_t host_gib;
};

// NVLink 2, 3, 4 and 5 have 150, 300, 450 and 900 GB/s in one direction for a
// device with all its lanes; PCIe 3, 4 and 5 x16 15.75, 31.5 and 63 GB/s.
constexpr Preset kPresets[] = {
    {"V100",
     125 * kTera,
     15.7 * kTera,
     7.8 * kTera,
     false,
     32,
     0.9 * kTera,
     80,
     150 * kGiga,
     "4xEDR",
     15.75 * kGiga,
     2,
     64},
    {"A100-40G",
     312 * kTera,
     19.5 * kTera,
     9.7 * kTera,
     true,
     40,
     1.555 * kTera,
     108,
     300 * kGiga,
     "8xHDR",
     31.5 * kGiga,
     2,
     128},
    {"A100-80G",
     312 * kTera,
     19.5 * kTera,
     9.7 * kTera,
     true,
     80,
     2.039 * kTera,
     108,
     300 * kGiga,
     "8xHDR",
     31.5 * kGiga,
     2,
     256},
    {"H100",
     989 * kTera,
     67 * kTera,
     34 * kTera,
     true,
     80,
     3.35 * kTera,
     132,
     450 * kGiga,
     "8xNDR",
     63 * kGiga,
     1,
     256},
    {"H200",
     989 * kTera,
     67 * kTera,
     34 * kTera,
     true,
     141,
     4.8 * kTera,
     132,
     450 * kGiga,
     "8xNDR",
     63 * kGiga,
     1,
     256},
    {"B200",
     2250 * kTera,
     75 * kTera,
     37 * kTera,
     true,
     180,
     8 * kTera,
     148,
     900 * kGiga,
     "8xNDR",
     63 * kGiga,
     1,
     256},
    {"RTX4090",
     165 * kTera,
     82.6 * kTera,
     1.3 * kTera,
     true,
     24,
     1.008 * kTera,
     128,
     31.5 * kGiga,
     "1x100GbE",
     31.5 * kGiga,
     1,
     32},
};

// One port of a network, in one direction.
struct Port {
  std::string_view name;
  double bytes_per_second;
  double latency_seconds;
};

// InfiniBand by generation (4 lanes), and Ethernet.
constexpr Port kPorts[] = {
    {"EDR", 12.5 * kGiga, 8e-6},
    {"HDR", 25 * kGiga, 8e-6},
    {"NDR", 50 * kGiga, 8e-6},
    {"100GbE", 12.5 * kGiga, 3e-5},
    {"25GbE", 3.125 * kGiga, 3e-5},
    {"10GbE", 1.25 * kGiga, 5e-5},
};

template <typename Known, size_t count>
const Known& find_named(
    const Known (&all)[count],
    std::string_view name,
    std::string_view what,
    std::string_view cluster) {
  std::vector<std::string> names;
  for (const Known& each : all) {
    if (each.name == name) {
      return each;
    }
    names.emplace_back(each.name);
  }
  throw UserError(
      cat("unknown ",
          what,
          " ",
          quote(name),
          " in cluster ",
          quote(cluster),
          " (known: ",
          join(names, ", "),
          "); for other machines write a cluster file, or run "
          "`weft cluster measure`"));
}

std::optional<int64_t> parse_count(std::string_view text) {
  const std::optional<int64_t> count = read_integer(text);
  return count && *count >= 1 ? count : std::nullopt;
}

// "A100-80G" as a word of the text form.
std::string word_of(std::string_view name) {
  std::string word(name);
  for (char& letter : word) {
    if (letter == '-') {
      letter = '_';
    }
  }
  return word;
}

Device device_of(const Preset& preset) {
  Device device;
  device.name = word_of(preset.name);
  device.rates = {
      {DType::F32, preset.single_flops},
      {DType::F16, preset.half_flops},
      {DType::F64, preset.double_flops}};
  if (preset.has_bf16) {
    device.rates.push_back({DType::BF16, preset.half_flops});
  }
  device.memory_bytes = preset.memory_gib * kGiB;
  device.memory_bytes_per_second = preset.memory_rate;
  device.call_seconds = 2e-6;
  device.launch_seconds = 6e-6;
  device.run_ahead_calls = 1000;
  device.units = preset.units;
  device.tiles = {
      {256, 128, 0.80}, {128, 128, 0.776}, {128, 64, 0.68}, {64, 64, 0.56}};
  device.ramp_depth = 80;
  device.efficiencies = {{Work::Memory, {{1e6, 0.65}, {1e8, 0.80}}}};
  return device;
}

// "8xHDR" of every node of so many devices.
Link network(
    std::string_view adapters, int64_t devices, std::string_view cluster) {
  const std::vector<std::string> parts = split(adapters, 'x');
  const std::optional<int64_t> count =
      parts.size() == 2 ? parse_count(parts[0]) : std::nullopt;
  WEFT_CHECK_USER(
      count.has_value(),
      "adapters of a node are written as in 8xHDR, found ",
      quote(adapters),
      " in cluster ",
      quote(cluster));
  const Port& port = find_named(kPorts, parts[1], "network", cluster);
  return {
      .latency_seconds = port.latency_seconds,
      .bytes_per_second =
          kAcrossShare * static_cast<double>(*count) * port.bytes_per_second,
      .start_seconds = 2e-5,
      .devices_per_link = devices};
}

Cluster cluster_of(
    const Preset& preset,
    std::string_view adapters,
    const std::vector<int64_t>& counts,
    std::string_view name) {
  Cluster cluster;
  cluster.device = device_of(preset);
  cluster.name = cluster.device.name;
  cluster.tiers = {
      {"host",
       preset.host_gib * kGiB,
       {.latency_seconds = 1e-5,
        .bytes_per_second = kWithinShare * preset.host_rate,
        .devices_per_link = preset.devices_per_host_link}}};
  cluster.groups.push_back(
      {"node",
       counts.back(),
       {.latency_seconds = 4e-6,
        .bytes_per_second = kWithinShare * preset.within_rate,
        .start_seconds = 2e-5}});
  if (counts.size() == 2) {
    cluster.groups.push_back(
        {"cluster", counts.front(), network(adapters, counts.back(), name)});
  }
  verify(cluster);
  return cluster;
}

}  // namespace

// Round figures for a server of 2020.
Device one_core() {
  return {
      .name = "core",
      .rates = {{DType::F32, 5e10}, {DType::F64, 2.5e10}},
      .memory_bytes = 8 * kGiB,
      .memory_bytes_per_second = 1e10,
      .call_seconds = 5e-6};
}

std::optional<Cluster> cluster_preset(std::string_view name) {
  const size_t plus = name.find('+');
  const std::vector<std::string> parts = split(name.substr(0, plus), 'x');
  if (parts.size() < 2 || parts.size() > 3) {
    return std::nullopt;
  }
  std::vector<int64_t> counts;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::optional<int64_t> count = parse_count(parts[i]);
    if (!count) {
      return std::nullopt;
    }
    counts.push_back(*count);
  }
  const Preset& preset =
      find_named(kPresets, parts.back(), "device kind", name);
  return cluster_of(
      preset,
      plus == std::string_view::npos ? preset.adapters : name.substr(plus + 1),
      counts,
      name);
}

Cluster load_cluster(const std::string& name_or_path) {
  if (std::optional<Cluster> preset = cluster_preset(name_or_path)) {
    return *preset;
  }
  WEFT_CHECK_USER(
      std::filesystem::exists(name_or_path),
      "there is no cluster file ",
      quote(name_or_path),
      "; machines have a name as in 8xA100-80G or 16x8xH100, or a file, which "
      "`weft cluster measure` writes for this one");
  return parse_cluster(read_file(name_or_path), name_or_path);
}

}  // namespace weft
