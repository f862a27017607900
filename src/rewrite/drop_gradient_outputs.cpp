// SPDX-License-Identifier: Apache-2.0
#include "rewrite/graph_pass.h"
#include "rewrite/training.h"

namespace weft {

void drop_gradient_outputs(Function& function) {
  std::erase_if(function.outputs, [](const Output& output) {
    return output.kind == OutputKind::Gradient;
  });
}

void drop_gradient_outputs(Graph& graph) {
  for (Function& function : graph.functions) {
    drop_gradient_outputs(function);
  }
}

}  // namespace weft
