// SPDX-License-Identifier: Apache-2.0
// Graph + Plan -> Program. The passes are listed in pipeline.cpp.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "program/program.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace weft {

class LoweringMemo;
class RuleMemo;

struct LowerOptions {
  // Where to write the text after each pass that changed it; empty: nowhere.
  std::string dump_dir;
  // Names of passes to leave out. Only those that pipeline.cpp marks optional.
  std::vector<std::string> disabled;
  // Print each pass's seconds to stderr.
  bool print_times = false;
  // Verify after every pass, so that a message names the one that is wrong;
  // else after the last alone, for whoever lowers many plans to choose one.
  bool verify_each = true;
  // What other lowerings have found of the rules of nodes, and this one adds
  // to; none: nothing is shared.
  std::shared_ptr<RuleMemo> rules = nullptr;
};

// Throws UserError when the plan does not fit the graph or asks for more ranks
// than the cluster has, and when it asks for what is not lowered yet, naming
// the value.
Program lower(
    const Graph& graph,
    const Plan& plan,
    const Cluster& cluster,
    const LowerOptions& options = {});
// On machines of which nothing is known but that there are enough: the passes
// read no rates.
Program lower(
    const Graph& graph, const Plan& plan, const LowerOptions& options = {});

// What the first rank does, as a block for all ranks: for whoever asks what a
// step costs on many of them, which takes no longer than on one. Neither run
// nor verified: other ranks' pieces may be smaller, and lie elsewhere. The plan
// is on one stage, without axes of time, and verifies.
Program lower_first_rank(const Graph& graph, const Plan& plan);
// The same for many plans of one graph, which share what they have in common
// (lowering_memo.h). May be called by several threads at once.
Program lower_first_rank(
    const Graph& graph,
    const Plan& plan,
    const std::shared_ptr<LoweringMemo>& memo);

// The names of those values of forward that `recompute` lines leave as they
// are, for making them again would repeat a transfer: none where the plan
// allows that. The plan is on one stage.
std::set<std::string> kept_from_transfers(const Graph& graph, const Plan& plan);

}  // namespace weft
