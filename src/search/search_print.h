// SPDX-License-Identifier: Apache-2.0
// What the search found, for people and for programs.
#pragma once

#include "cluster/cluster.h"
#include "search/search.h"
#include "search/what_if.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace weft {

// Of a result with a plan: a few lines about it, what the memory of its ranks
// holds, what else there would be with how much slower it is or why it cannot
// be, and what would be best on other machines. Where the cluster's devices
// have a price, with what tokens cost.
std::string print(
    const SearchResult& result,
    const Cluster& cluster,
    const std::vector<WhatIf>& what_ifs = {});

// The same, every candidate with its figures or its reason, and the plan's
// text.
nlohmann::json to_json(
    const SearchResult& result,
    const Cluster& cluster,
    const std::vector<WhatIf>& what_ifs = {});

// "12.345 ms".
std::string seconds_text(double seconds);

}  // namespace weft
