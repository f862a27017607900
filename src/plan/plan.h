// SPDX-License-Identifier: Apache-2.0
// The Plan: every decision about how to run one Graph, as a small text that a
// person can read, edit, diff and keep in git.
//
//   plan @gpt on <data=2> {
//     %tokens [data, -]
//     %blocks.*/mm [data, -]
//   }
//
// `local batch_norm` before the decisions lets every rank normalise by its own
// part of the batch; else statistics are those of the whole batch.
//
// A decision names values of the graph's step by a pattern ('*' stands for any
// characters) and says how they lie on the mesh. Where several match, the last
// one counts. What no decision names follows from what is named
// (lower/propagate_layouts.cpp). The empty plan on <> is one rank with the
// whole step.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Decision {
  // Without the '%'.
  std::string pattern;
  Layout layout;

  bool operator==(const Decision&) const = default;
};

struct Plan {
  // Of the graph that it is for.
  std::string graph;
  Mesh mesh;
  // Batch norms that train take their statistics from each rank's own part of
  // the batch, as DistributedDataParallel does. This changes the mathematics.
  bool local_batch_norm = false;
  std::vector<Decision> decisions;

  bool operator==(const Plan&) const = default;
};

// '*' matches any run of characters, every other character itself.
bool matches(std::string_view pattern, std::string_view name);

// The decision that counts for a value, or nullptr.
const Decision* decision_for(const Plan& plan, std::string_view value_name);

std::string print(const Plan& plan);
// `source` names the text in messages. Throws UserError with line and column.
Plan parse_plan(std::string_view text, const std::string& source);

// Mesh well-formed; the graph is the one meant; every pattern matches a value
// of its step; every layout fits the type of each value it counts for, pieces
// of equal size. Throws UserError naming the decision and the value.
void verify(const Plan& plan, const Graph& graph);

}  // namespace weft
