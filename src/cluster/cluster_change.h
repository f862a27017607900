// SPDX-License-Identifier: Apache-2.0
// What the machines would be if one of their figures were another:
// "bandwidth=2x", "nodes=0.5x".
#pragma once

#include "cluster/cluster.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class ClusterFigure : uint8_t {
  Bandwidth,   // bytes_per_second of every link between devices
  Latency,     // latency_seconds and start_seconds of these
  Flops,       // flops_per_second of every device
  Memory,      // memory_bytes of every device
  MemoryRate,  // memory_bytes_per_second of every device
  Devices,     // how many there are in each innermost group; they share its way
               // out
  Nodes,       // how many members the outermost group has
};
inline constexpr ClusterFigure kClusterFigures[] = {
    ClusterFigure::Bandwidth,
    ClusterFigure::Latency,
    ClusterFigure::Flops,
    ClusterFigure::Memory,
    ClusterFigure::MemoryRate,
    ClusterFigure::Devices,
    ClusterFigure::Nodes};
// "bandwidth", "memory-rate": as the user writes it.
std::string_view name(ClusterFigure figure);

struct ClusterChange {
  ClusterFigure figure = ClusterFigure::Bandwidth;
  double times = 1;

  bool operator==(const ClusterChange&) const = default;
};

// "bandwidth=2x". Changes that go together have a comma between them.
std::string print(const ClusterChange& change);
std::string print(const std::vector<ClusterChange>& changes);
// Throws UserError with the figures that there are, and how to write it.
std::vector<ClusterChange> parse_cluster_changes(std::string_view text);

// Throws UserError where counts do not come out whole, and for nodes of a
// cluster that is a single one: nobody has said what would join them.
Cluster changed(Cluster cluster, const ClusterChange& change);
Cluster changed(Cluster cluster, const std::vector<ClusterChange>& changes);

}  // namespace weft
