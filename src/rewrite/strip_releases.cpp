// SPDX-License-Identifier: Apache-2.0
#include "rewrite/graph_pass.h"

namespace weft {

// Without releases a storage lives to its last use: what a runtime can do,
// where releases tell what eager PyTorch did.
void strip_releases(Function& function) {
  for (Node& node : function.nodes) {
    node.releases.clear();
  }
}

}  // namespace weft
