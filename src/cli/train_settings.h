// SPDX-License-Identifier: Apache-2.0
// Between the flags of weft train and run.json (train/run_settings.h).
#pragma once

#include "cli/train_flags.h"
#include "train/run_settings.h"

namespace weft {

// With --resume, takes what the command line leaves open from the run.json of
// --output, where there is one, and notes it in options.before. How ranks share
// the steps is taken over only where the command line says nothing of it at
// all. Throws UserError, and CLI::RequiredError for what is given nowhere.
void inherit_settings(const CLI::App& command, TrainFlags& flags);

// All of them, as run.json keeps them: paths are absolute. `ranks` is how many
// there are, whoever starts them.
RunValues settings_of(const TrainFlags& flags, int64_t ranks);

}  // namespace weft
