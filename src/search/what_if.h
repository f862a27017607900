// SPDX-License-Identifier: Apache-2.0
// What the best plan would be on other machines than there are.
#pragma once

#include "cluster/cluster.h"
#include "cluster/cluster_change.h"
#include "graph/graph.h"
#include "search/search.h"

#include <string>
#include <vector>

namespace weft {

struct WhatIf {
  std::vector<ClusterChange> changes;
  Cluster cluster;
  SearchResult result;
  // Why there is no plan; empty: there is.
  std::string reason;
};

// Searches again on the changed cluster. Of `max_bytes`, if there are any, the
// changes of the memory count too. Throws UserError for changes that the
// cluster does not take.
WhatIf what_if(
    const Graph& graph,
    const Cluster& cluster,
    const SearchOptions& options,
    const std::vector<ClusterChange>& changes);

}  // namespace weft
