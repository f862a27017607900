// SPDX-License-Identifier: Apache-2.0
// What the user tells the search.
#pragma once

#include "cluster/cluster.h"
#include "cluster/cluster_change.h"
#include "search/search.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

struct SearchFlags {
  std::vector<std::string> fix;
  std::vector<std::string> forbid;
  std::optional<double> time_limit_seconds;
  // A number with a unit, "40GiB"; empty: the device's memory.
  std::string max_bytes;
  // Of a device for an hour; none: what the cluster says.
  std::optional<double> price;
  // As in cluster_change.h, each to be searched for on its own.
  std::vector<std::string> what_if;
};

// --fix, --forbid, --max-bytes, --time-limit, --price and --what-if.
void add_search_flags(CLI::App& command, SearchFlags& flags);

// Whether any of them is given but --max-bytes, which others heed too.
bool binds_a_search(const SearchFlags& flags);

// Throws UserError.
SearchOptions search_options(const SearchFlags& flags);
// The cluster with the price that was given. Throws UserError.
Cluster search_cluster(const std::string& name, const SearchFlags& flags);
// What --what-if asks for. Throws UserError for what the cluster does not take.
std::vector<std::vector<ClusterChange>> what_if_changes(
    const Cluster& cluster, const SearchFlags& flags);

}  // namespace weft
