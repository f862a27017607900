// SPDX-License-Identifier: Apache-2.0
#include "rewrite/graph_pass.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace weft {

namespace {

const GraphPass& find_pass(std::string_view name) {
  const std::vector<GraphPass>& passes = graph_passes();
  const auto found =
      std::find_if(passes.begin(), passes.end(), [&](const GraphPass& pass) {
        return pass.name == name;
      });
  if (found == passes.end()) {
    std::vector<std::string> names;
    for (const GraphPass& pass : passes) {
      names.emplace_back(pass.name);
    }
    throw UserError(
        cat("no pass on graphs has the name ",
            quote(name),
            "; there are ",
            join(names, ", ")));
  }
  return *found;
}

}  // namespace

const std::vector<GraphPass>& graph_passes() {
  static const std::vector<GraphPass> passes = {
      {"dead-code", "drop nodes whose results nothing reads", drop_dead_code},
      {"common-subexpressions",
       "compute once what nodes of one phase compute twice",
       merge_common_subexpressions},
      {"fold-recompute",
       "undo activation checkpointing: take from forward what is recomputed",
       fold_recompute},
      {"strip-releases",
       "drop the lifetimes that were recorded from the eager run",
       strip_releases},
      {"canonical-names",
       "name results by module and operator, counted anew",
       give_canonical_names},
      {"drop-gradient-outputs",
       "return no gradients, so that none is kept to the end of the step",
       drop_gradient_outputs,
       /*keeps_outputs=*/false},
  };
  return passes;
}

void run_graph_passes(const std::vector<std::string>& names, Graph& graph) {
  std::vector<const GraphPass*> passes;
  for (const std::string& name : names) {
    passes.push_back(&find_pass(name));
  }
  for (const GraphPass* pass : passes) {
    for (Function& function : graph.functions) {
      pass->run(function);
    }
    try {
      verify(graph);
    } catch (const UserError& error) {
      // The graph was right before, so this is no fault of the user.
      throw InternalError(
          cat("the pass ", pass->name, " broke the graph: ", error.what()));
    }
  }
}

}  // namespace weft
