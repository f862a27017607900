// SPDX-License-Identifier: Apache-2.0
// What was measured of this machine, kept from one run to the next.
#pragma once

#include "cli/measure.h"
#include "cluster/cluster.h"

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// Where it is kept: in $XDG_CACHE_HOME/weft, else ~/.cache/weft, else
// $XDG_RUNTIME_DIR/weft, in a folder by the machine's name, a file for each
// number of ranks and of threads. Nullopt without any of them: a name in a
// folder that all users share can be taken by another.
std::optional<std::string> measured_cluster_path(int64_t ranks, int threads);

// Makes the folder of that path, for this user alone. Throws UserError.
void make_cache_folder(const std::string& path);

// Runs `weft cluster measure` as so many ranks, which write the file; its exit
// status.
int start_measuring(
    int64_t ranks, const MeasureOptions& options, const std::string& output);

// The cluster of that many ranks on this machine: as it is kept, or measured
// now, in a few seconds, and kept; not kept, and what is there not read, where
// another user may write. Throws UserError when that cannot be done.
// `oversubscribe`: of more ranks than the cores take, too.
Cluster measured_cluster(
    int64_t ranks, int threads, bool is_quiet, bool oversubscribe);

}  // namespace weft
