// SPDX-License-Identifier: Apache-2.0
// What every command that takes a MODEL shares: from the word on the command
// line to a Graph.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

struct ModelOptions {
  // Arguments for the function that makes the model, as key and value.
  std::vector<std::pair<std::string, std::string>> set;
  std::optional<int64_t> batch_size;
  // f32, bf16, bf16-mixed or f16-mixed.
  std::string precision = "f32";
  // The place or the key of the loss in what the model returns; "": the usual.
  std::string loss;
  // The loss alone, in evaluation mode.
  bool evaluation = false;
  // Types of tensors of the batch by key, in place of those that FUNCTION
  // gives.
  std::vector<std::pair<std::string, std::string>> batch_types;
  // The interpreter that runs a .py model; "" for the one beside `weft`.
  std::string python;
};

struct LoadedModel {
  Graph graph;
  // Making the model and its batch, and writing down its step; 0 for a model
  // that was written down before.
  double build_seconds = 0;
  double capture_seconds = 0;
  // Of a model of Hugging Face, what train/export_model.h keeps of it; empty
  // for others, and for one that was written down before.
  std::string hugging_face;
};

// The flags of a command that takes a MODEL: MODEL, --set, --loss and --python;
// and --batch-size where it is one number.
struct ModelFlags {
  std::string model;
  std::vector<std::string> settings;
  std::string loss;
  std::optional<int64_t> batch_size;
  std::string python;
};
void add_model_flags(CLI::App& command, ModelFlags& flags);
void add_batch_size_flag(CLI::App& command, ModelFlags& flags);
// Throws UserError for a setting that is not KEY=VALUE.
ModelOptions model_options(const ModelFlags& flags);

// FILE.py:FUNCTION, which is captured as often as a run needs it; the others
// are one training step for one size of batches.
bool is_python_model(const std::string& model);

// `model` is FILE.graph, FILE.py:FUNCTION or FILE.pt2. Throws UserError that
// says what is wrong with it.
LoadedModel load_model(const std::string& model, const ModelOptions& options);

// For a command that only reads its model: where that is FILE.py:FUNCTION, runs
// the command in the Python process that captures it, to which no graph has to
// be handed, and throws CLI::RuntimeError with its exit status. Otherwise, and
// in that process, returns at once. Call it before anything is read or written.
void go_on_in_python(const ModelFlags& flags);

// In that process: FILE.py:FUNCTION and KEY=VALUE words to what it captures.
// Throws UserError.
using PythonCapture = std::function<LoadedModel(
    const std::string& model, const std::vector<std::string>& settings)>;
void set_python_capture(PythonCapture capture);

}  // namespace weft
