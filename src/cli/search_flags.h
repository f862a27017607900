// SPDX-License-Identifier: Apache-2.0
// What the user tells the search.
#pragma once

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
};

// --fix, --forbid, --max-bytes and --time-limit.
void add_search_flags(CLI::App& command, SearchFlags& flags);

// Throws UserError.
SearchOptions search_options(const SearchFlags& flags);

}  // namespace weft
