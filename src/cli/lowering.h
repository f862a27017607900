// SPDX-License-Identifier: Apache-2.0
// What the commands share that take a MODEL and a plan: from the command line
// to a Program.
#pragma once

#include "cluster/cluster.h"
#include "lower/lower.h"
#include "program/program.h"

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace weft {

struct LoweringFlags {
  // A model as in load_model.h, or FILE.program.
  std::string model;
  // Empty: the whole step on one rank.
  std::string plan;
  LowerOptions options;
};

// MODEL, --plan, --dump-dir, --disable-pass and --pass-times.
void add_lowering_flags(CLI::App& command, LoweringFlags& flags);

// Reads a program, or captures and lowers the model. Without a cluster any
// number of ranks will do.
Program load_program(
    const LoweringFlags& flags, const std::optional<Cluster>& cluster);

}  // namespace weft
