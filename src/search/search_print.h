// SPDX-License-Identifier: Apache-2.0
// What the search found, for people and for programs.
#pragma once

#include "cluster/cluster.h"
#include "search/search.h"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace weft {

// A few lines about the plan that was found, and what else there would be with
// how much slower it is, or why it cannot be.
std::string print(const SearchResult& result, const Cluster& cluster);

// The same, every candidate with its figures or its reason, and the plan's
// text.
nlohmann::json to_json(const SearchResult& result, const Cluster& cluster);

}  // namespace weft
