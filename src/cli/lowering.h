// SPDX-License-Identifier: Apache-2.0
// What the commands share that take a MODEL and a plan: from the command line
// to a Program.
#pragma once

#include "cluster/cluster.h"
#include "lower/lower.h"
#include "plan/plan.h"
#include "program/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

// How to run: a plan from a file, or words that stand for one.
struct PlanFlags {
  // A file; empty: none.
  std::string plan;
  // As in plan/parallel.h; empty: none.
  std::string parallel;

  bool is_given() const { return !plan.empty() || !parallel.empty(); }
};
// --plan and --parallel; `without` says what happens without them.
void add_plan_flags(
    CLI::App& command, PlanFlags& flags, const std::string& without);
// `flags` must give one of them; `device`: where the step should be fast.
// Throws UserError.
Plan load_plan(
    const PlanFlags& flags,
    const Graph& graph,
    const Device& device = one_core());
// What messages call it: its file, or --parallel.
std::string name_of(const PlanFlags& flags);
// How many ranks the plan is for, without a graph.
int64_t rank_count(const PlanFlags& flags);
// As of plan/rank_names.h, without a graph.
std::vector<std::string> rank_names(const PlanFlags& flags);

struct LoweringFlags {
  // A model as in load_model.h, or FILE.program.
  std::string model;
  // None: the whole step on one rank.
  PlanFlags plan;
  LowerOptions options;
};

// MODEL, --plan, --parallel, --dump-dir, --disable-pass and --pass-times.
void add_lowering_flags(CLI::App& command, LoweringFlags& flags);

// Reads a program, or captures and lowers the model. Without a cluster any
// number of ranks will do.
Program load_program(
    const LoweringFlags& flags, const std::optional<Cluster>& cluster);

}  // namespace weft
