// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weft {

// Prints what the costs of a cluster say about the runs of a table
// (simulate/gpt_run.h) beside what was measured. `cluster`: a cluster, or a
// kind of device with its adapters as in "A100-80G+4xHDR", for nodes of 8 of
// them, as many as a row needs.
void score_table(
    const std::string& path, const std::string& cluster, bool as_json);

// The machines of the tables that came with the first measurements.
inline constexpr const char* kTableCluster = "A100-80G+4xHDR";

}  // namespace weft
