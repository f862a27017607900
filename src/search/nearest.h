// SPDX-License-Identifier: Apache-2.0
// Where there is no plan: the nearest thing that would work.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "search/search.h"

#include <cstdint>
#include <string>

namespace weft {

// As search, but there is a plan. Throws UserError where nothing fits, with
// the nearest thing that would.
SearchResult find_plan(
    const Graph& graph, const Cluster& cluster, const SearchOptions& options);

// Of a search without a plan: "the least that any plan needs is 91.2 GiB a
// rank, by data=2,tensor=8; it fits with 3 nodes in place of 2". What else
// would do is found by estimates of what takes the least memory: without one
// of the user's limits, with the whole memory of the device, or with more
// members of the outermost group.
std::string nearest(
    const Graph& graph,
    const Cluster& cluster,
    const SearchOptions& options,
    const SearchResult& result);

// Why no mesh of so many ranks shares so many rows within the limits, with
// rows that it would share, or the limits of which one must go.
std::string why_no_mesh(
    int64_t ranks,
    int64_t ranks_a_node,
    int64_t rows,
    const SearchLimits& limits);

}  // namespace weft
