// SPDX-License-Identifier: Apache-2.0
// Which candidates there are.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "search/candidate.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// What the user has decided already.
struct SearchLimits {
  // Words of parallel.h and `recompute`, each with its value: "tensor" -> "8".
  std::map<std::string, std::string> fixed;
  // Words that must not be used.
  std::set<std::string> forbidden;
};

// "tensor=8", "sequence", "recompute=full", "pipeline": adds to the limits.
// Throws UserError for words that the search does not choose, with those that
// it does.
void fix_word(SearchLimits& limits, std::string_view word);
void forbid_word(SearchLimits& limits, std::string_view word);
// Throws UserError for a word that is both, for one that needs another which
// is kept at 1, and for sizes that do not go into `ranks`.
void verify(const SearchLimits& limits, int64_t ranks);

// Rows of the batch: the size of the first dim of its first tensor.
int64_t batch_rows(const Graph& graph);

// All ways to share a step of so many rows among all `ranks`: every mesh of
// pipeline, data, tensor, expert where the step has so many `experts`, and
// context where it is fixed; zero=0 to 3; `sequence`; schedules, with as many
// stages a position as they need or as are fixed; micro-batches of 1, 2, 4 and
// so on rows, or of all that a rank has, the smallest first; what is made
// again, the least first. In a fixed order, in which those that differ in the
// last things follow each other.
std::vector<Candidate> candidates(
    int64_t ranks,
    int64_t ranks_a_node,
    int64_t rows,
    const SearchLimits& limits,
    int64_t experts = 1);

}  // namespace weft
