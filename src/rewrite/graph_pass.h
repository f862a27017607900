// SPDX-License-Identifier: Apache-2.0
// Graph -> Graph: rewritings that keep what a graph computes. One pass a file;
// graph_pass.cpp lists them. docs/adding_a_pass.md says how to add one. Those
// that a training loop asks for, and that change what a step computes, are in
// training.h.
#pragma once

#include "graph/graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct GraphPass {
  // As the user writes it: `dead-code`.
  std::string_view name;
  // One line for `weft opt --list-passes`.
  std::string_view summary;
  void (*run)(Function&);
  // False for a pass after which a function returns less.
  bool keeps_outputs = true;
};

// Every pass, in the order in which people meet them.
const std::vector<GraphPass>& graph_passes();

// Runs the named passes in order on every function of the graph, and verifies
// after each. Throws UserError for an unknown name, before any pass runs, and
// InternalError when a pass broke the graph.
void run_graph_passes(const std::vector<std::string>& names, Graph& graph);

// Nodes whose results nothing reads are dropped (dead_code.cpp).
void drop_dead_code(Function& function);
// Of nodes that compute the same in the same phase the first stays
// (common_subexpressions.cpp).
void merge_common_subexpressions(Function& function);
// What the user's step computes again in backward is taken from forward
// (fold_recompute.cpp).
void fold_recompute(Function& function);
// The recorded lifetimes are dropped (strip_releases.cpp).
void strip_releases(Function& function);
// Results are named by their module and operator, counted anew
// (canonical_names.cpp).
void give_canonical_names(Function& function);
// The outputs of kind Gradient are dropped (drop_gradient_outputs.cpp).
void drop_gradient_outputs(Function& function);

}  // namespace weft
