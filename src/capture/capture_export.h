// SPDX-License-Identifier: Apache-2.0
// A model that torch.export wrote into a .pt2 file, to a Graph, without Python.
//
//   torch.export.save(torch.export.export(model, batch), "model.pt2")
//
// The file has the forward pass as a list of operator calls. They are run on
// tensors without memory through the same recorder as every other model, and
// autograd adds the backward pass: the Graph is the one that the model itself
// gives, but without `init` and without an optimizer, which the file does not
// have. Weights are not read.
#pragma once

#include "capture/optimizer.h"
#include "graph/graph.h"

#include <optional>
#include <string>

namespace weft {

// The Graph is called after the file. The loss is the output called `loss`, or
// the first one. A model that was exported with sizes that vary is captured at
// those of the batch that it was exported with. Throws UserError for a file
// that cannot be read, an operator that this PyTorch does not have, code that a
// Graph cannot hold, and a loss that is not one number.
Graph capture_export(
    const std::string& path,
    const std::optional<OptimizerDescription>& optimizer = std::nullopt);

}  // namespace weft
