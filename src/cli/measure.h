// SPDX-License-Identifier: Apache-2.0
// Measures the machine that this process runs on, into a Cluster.
#pragma once

#include "cluster/cluster.h"
#include "execute/rendezvous.h"

#include <functional>
#include <optional>
#include <string>

namespace weft {

struct MeasureOptions {
  // Where files are written and read to measure the disk.
  std::string folder;
  // Threads inside one operator.
  int threads = 1;
  // Every figure is that of the fastest of so many.
  int rounds = 7;
  // More ranks than the cores take are meant.
  bool oversubscribe = false;
};

// What is measured now, and the share that is done.
using MeasureProgress = std::function<void(const std::string&, double)>;

// Runs this process's rank; all ranks measure at the same time, for they share
// caches and memory. On rank 0 the cluster of them all; on the others nullopt.
std::optional<Cluster> measure_cluster(
    const Rendezvous& rendezvous,
    const MeasureOptions& options,
    const MeasureProgress& progress);

}  // namespace weft
