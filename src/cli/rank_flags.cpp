// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_flags.h"

#include "base/text.h"
#include "execute/rank_room.h"

#include <CLI/CLI.hpp>

namespace weft {

void add_oversubscribe_flag(CLI::App& command, bool& oversubscribe) {
  command.add_flag(
      "--oversubscribe",
      oversubscribe,
      cat("Start more than ", kMostRanksPerCore, " ranks a core here"));
}

}  // namespace weft
