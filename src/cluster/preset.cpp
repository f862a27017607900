// SPDX-License-Identifier: Apache-2.0
// Clusters of well-known devices, from their makers' data sheets: peak rates,
// which no program reaches. A measured cluster file says more.
#include "base/error.h"
#include "base/text.h"
#include "cluster/cluster.h"

#include <charconv>

namespace weft {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

struct Preset {
  std::string_view name;
  Device device;
  // Between devices of a node, and between nodes.
  Link inside;
  Link outside;
};

// Dense tensor-core rates (f32: TF32 off); NVLink 3 in one direction; one
// 200 Gbit/s adapter a device.
Preset a100_80g() {
  return {
      .name = "A100-80G",
      .device =
          {.name = "A100_80G",
           .rates =
               {{DType::F32, 19.5e12},
                {DType::BF16, 312e12},
                {DType::F16, 312e12},
                {DType::F64, 9.7e12}},
           .memory_bytes = 80 * kGiB,
           .memory_bytes_per_second = 2.039e12,
           .call_seconds = 5e-6},
      .inside = {.latency_seconds = 5e-6, .bytes_per_second = 300e9},
      .outside = {.latency_seconds = 10e-6, .bytes_per_second = 25e9},
  };
}

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1) {
    return std::nullopt;
  }
  return count;
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
  const std::vector<std::string> parts = split(name, 'x');
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
  const Preset preset = a100_80g();
  WEFT_CHECK_USER(
      parts.back() == preset.name,
      "unknown device kind ",
      quote(parts.back()),
      " in cluster ",
      quote(name),
      " (known: ",
      preset.name,
      "); for other machines write a cluster file");
  Cluster cluster;
  cluster.name = preset.device.name;
  cluster.device = preset.device;
  cluster.groups.push_back({"node", counts.back(), preset.inside});
  if (counts.size() == 2) {
    cluster.groups.push_back({"cluster", counts.front(), preset.outside});
  }
  verify(cluster);
  return cluster;
}

Cluster load_cluster(const std::string& name_or_path) {
  if (std::optional<Cluster> preset = cluster_preset(name_or_path)) {
    return *preset;
  }
  return parse_cluster(read_file(name_or_path), name_or_path);
}

}  // namespace weft
