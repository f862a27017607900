// SPDX-License-Identifier: Apache-2.0
// A pass, what it works on, and the driver that owns everything around it:
// timing, verifying, dumping, leaving out by name.
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "lower/assignment.h"
#include "lower/lower.h"
#include "lower/lowering_memo.h"
#include "plan/plan.h"
#include "program/program.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Where an instruction of a block comes from.
struct Origin {
  // The node of the step for which it was emitted; None for what an input or an
  // output needs.
  NodeId node = NodeId::None;
  // The point of time; -1 for what all have in common.
  int64_t part = -1;
};

// What passes hand on: first the step as a graph, then, with a layout for every
// value, as a program.
struct Lowering {
  const Plan& plan;
  const Cluster& cluster;
  // What is known of the graph already, from other passes and plans.
  std::shared_ptr<LoweringMemo> memo = std::make_shared<LoweringMemo>();
  // The mesh of a stage.
  Mesh space = {};
  // What layouts speak of: that, then the axes of time.
  Mesh mesh = {};
  Graph graph;
  // Decisions about values that passes added, each by its name; they count
  // before the plan's.
  std::vector<Decision> reads;
  // Nodes, by their first result, that cannot be expanded.
  std::set<std::string> unexpanded;
  // Where stages have meshes of their own (cross_stages): the step as each
  // position of the pipeline would do it on its mesh. What another position
  // does of it is not in the program. Empty everywhere else.
  std::vector<Lowering> by_position = {};
  // In one of these: which; and who does or keeps what, by node of the step, a
  // crossing where it leads, and by input.
  std::optional<size_t> position = std::nullopt;
  std::vector<int64_t> node_stages = {};
  std::vector<int64_t> input_stages = {};
  // One a value of the graph's step, as its node makes it; empty before
  // propagate_layouts.
  std::vector<Layout> layouts;
  // Likewise, where it lies from then on: as the plan says, else as it is made.
  std::vector<Layout> resting;
  // One a node of the step.
  std::vector<Assignment> assignments;
  // No blocks before shard. First every point of `mesh` has its block, then
  // every rank of a stage, then every rank.
  Program program;
  // For every block and instruction, where it comes from; empty once the
  // instructions are in the order of the plan's schedule.
  std::vector<std::vector<Origin>> origins = {};
};

// Appends one rank's block; or lets the last block have the rank too, where
// they are the same.
void add_block(
    Program& program,
    std::vector<std::vector<Origin>>& origins,
    Block block,
    std::vector<Origin> of_block);
// Names of their own for the functions of several blocks.
void name_blocks(Program& program);

// Whether nodes of the phase run after forward: what they read is kept for
// them.
bool is_later(Phase phase);

struct Pass {
  std::string_view name;
  void (*run)(Lowering&);
  // The program is right without it, only slower or larger.
  bool optional = false;
  // Where stages have meshes of their own, it runs for each position by itself.
  bool by_position = false;
};

// Runs the passes in order. After each one, or the last alone if the options
// say so, the graph or program is verified; an error of the pass or of the
// verifier is rethrown with the pass's name in front. Throws UserError for a
// name in `disabled` that is no optional pass.
void run_passes(
    const std::vector<Pass>& passes,
    Lowering& lowering,
    const LowerOptions& options);

// Rows that are sorted by expert are grouped by sample and by the experts of
// each rank (group_rows.cpp).
void group_rows(Lowering& lowering);
// Mean losses over weighted elements become a sum and a count, so that each
// can be reduced by itself (split_means.cpp).
void split_means(Lowering& lowering);
// Batch norms become sums that ranks add up, unless the plan says otherwise
// (split_batch_norms.cpp).
void split_batch_norms(Lowering& lowering);
// Values that are cheap to make again are, in backward (recompute.cpp).
void recompute(Lowering& lowering);
// A value of its own for what is stored in one layout and read in another
// (read_parameters.cpp).
void read_parameters(Lowering& lowering);
// What goes between stages of unequal meshes has nodes of its own, and every
// position a lowering (cross_stages.cpp).
void cross_stages(Lowering& lowering);
// A layout for every value and a way to compute every node: from the plan, else
// by the rules of the op table (propagate_layouts.cpp).
void propagate_layouts(Lowering& lowering);
// Both of them. What was found for a plan that differs in what is made again
// alone is taken, where this one makes nothing again (lay_out.cpp).
void lay_out(Lowering& lowering);
// One rank's step: local sizes, and calls and collectives, waited for at once,
// wherever a value has to lie otherwise (shard.cpp).
void shard(Lowering& lowering);
// The same where all ranks are taken to do what the first does, whatever their
// pieces are.
void shard_alike(Lowering& lowering);
// Points of time become parts of one rank's work (fold_time.cpp).
void fold_time(Lowering& lowering);
// Each rank gets its stages' work, in the order of the schedule, and what other
// stages make (cut_stages.cpp).
void cut_stages(Lowering& lowering);
// Two calls become one that needs less memory (fuse.cpp).
void fuse(Lowering& lowering);
// Views of what transfers bring are made where they are read (late_views.cpp).
void late_views(Lowering& lowering);
// Collectives whose results nobody reads yet travel together (bucket.cpp).
void bucket(Lowering& lowering);
// Stored pieces are gathered by layers, a layer ahead (gather_ahead.cpp).
void gather_ahead(Lowering& lowering);
// Updates each parameter as soon as it can be (update_early.cpp).
void update_early(Lowering& lowering);
// Moves each wait down to just before the first reader (overlap.cpp).
void overlap(Lowering& lowering);
// What the next step reads comes to lie where this step found it (carry.cpp).
void carry(Lowering& lowering);
// Results take over storages that nobody reads any more (in_place.cpp).
void in_place(Lowering& lowering);
// Calls whose results nobody reads yet wait until there is room (delay.cpp).
void delay(Lowering& lowering);
// Frees each storage after its last reader (lifetimes.cpp).
void lifetimes(Lowering& lowering);
// A place in the arena for every storage (place.cpp).
void place(Lowering& lowering);

}  // namespace weft
