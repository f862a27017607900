// SPDX-License-Identifier: Apache-2.0
// What every command that takes a MODEL shares: from the word on the command
// line to a Graph.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

struct ModelOptions {
  // Arguments for the function that makes the model, as key and value.
  std::vector<std::pair<std::string, std::string>> set;
  std::optional<int64_t> batch_size;
  // The interpreter that runs a .py model; "" for the one beside `weft`.
  std::string python;
};

struct LoadedModel {
  Graph graph;
  // Making the model and its batch, and writing down its step; 0 for a model
  // that was written down before.
  double build_seconds = 0;
  double capture_seconds = 0;
};

// `model` is FILE.graph, FILE.py:FUNCTION or FILE.pt2. Throws UserError that
// says what is wrong with it.
LoadedModel load_model(const std::string& model, const ModelOptions& options);

}  // namespace weft
