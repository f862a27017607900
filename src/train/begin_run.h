// SPDX-License-Identifier: Apache-2.0
// What a run that begins, or goes on, writes into run.json.
#pragma once

#include "graph/graph.h"
#include "train/run_settings.h"
#include "train/train.h"

#include <optional>
#include <string>
#include <vector>

namespace weft {

// Tells whether two runs compute the same step: a checksum of its text. The
// learning rates, which a run may be given, are left out.
std::string step_identity(const Graph& graph);

struct RunBeginning {
  RunRecord record;
  // What is different from the run so far, and why that may be.
  std::vector<std::string> notes;
};

// `found` is what the options came to. A run that goes on from a checkpoint is
// compared with options.before. Throws UserError for what must not change, and
// for a schedule that has ended where --steps goes on.
RunBeginning begin_run(
    const TrainOptions& options,
    const RunValues& found,
    const std::optional<std::string>& checkpoint);

// The same refusals by options.settings alone, before anything is captured.
void refuse_changes(const TrainOptions& options, const std::string& checkpoint);

}  // namespace weft
