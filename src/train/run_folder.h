// SPDX-License-Identifier: Apache-2.0
// The folder of a run: run.json, checkpoints step-N, metrics, the model.
#pragma once

#include "train/run_settings.h"

#include <optional>
#include <string>
#include <vector>

namespace weft {

// Makes it if need be. Throws UserError when that fails, or when it would lie
// in the data, which would grow with every checkpoint.
void make_run_folder(
    const std::string& folder, const std::vector<std::string>& data);

// Where a run begins.
struct RunStart {
  // None: at its beginning.
  std::optional<std::string> checkpoint;
  // What a person should know.
  std::vector<std::string> notes;
};

// With `resume`, the last whole checkpoint. Throws UserError, which says what
// to do: without `resume`, for a folder that holds checkpoints or a model; with
// it, where there are checkpoints and none is whole. A folder that is empty or
// not there is one of a run that has saved nothing yet.
RunStart find_start(const std::string& folder, bool resume);

// None where it has none, as those of earlier versions. Throws UserError.
std::optional<RunRecord> read_run_record(const std::string& folder);
// In one piece: whoever reads it finds this one or the one before.
void write_run_record(const std::string& folder, const RunRecord& record);

}  // namespace weft
