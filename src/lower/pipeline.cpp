// SPDX-License-Identifier: Apache-2.0
// The passes in order: the table of contents of this folder.
#include "base/error.h"
#include "lower/exchanged_values.h"
#include "lower/laid_out.h"
#include "lower/lay_out.h"
#include "lower/lower.h"
#include "lower/pass.h"
#include "plan/plan_place.h"

#include <utility>

namespace weft {
namespace {

Lowering begin(
    const Graph& graph,
    const Plan& plan,
    const Cluster& cluster,
    std::shared_ptr<LoweringMemo> memo) {
  return {
      .plan = plan,
      .cluster = cluster,
      .memo = std::move(memo),
      .space = stage_mesh(plan.mesh),
      .mesh = widest_mesh(plan),
      .graph = graph,
      .reads = {},
      .unexpanded = {},
      .by_position = {},
      .position = std::nullopt,
      .node_stages = {},
      .input_stages = {},
      .layouts = {},
      .resting = {},
      .assignments = {},
      .program = {},
      .origins = {}};
}

// For plans that say how many ranks there are, and no more is known.
Cluster any_machines(const Plan& plan) {
  Cluster cluster;
  cluster.name = "any";
  cluster.groups.push_back({"all", rank_count(plan), {}});
  return cluster;
}

}  // namespace

Program lower(
    const Graph& graph,
    const Plan& plan,
    const Cluster& cluster,
    const LowerOptions& options) {
  verify(plan, graph);
  WEFT_CHECK_USER(
      rank_count(plan) <= device_count(cluster),
      place(plan),
      ": ",
      meshes_text(plan),
      " needs ",
      rank_count(plan),
      " ranks, and cluster @",
      cluster.name,
      " has ",
      device_count(cluster),
      " device(s); take a smaller mesh, or more machines");
  const std::vector<Pass> passes = {
      {"group_rows", group_rows},
      {"split_means", split_means},
      {"split_batch_norms", split_batch_norms},
      {"recompute", recompute},
      {"read_parameters", read_parameters},
      {"cross_stages", cross_stages},
      {"propagate_layouts",
       propagate_layouts,
       /*optional=*/false,
       /*by_position=*/true},
      {"shard", shard, /*optional=*/false, /*by_position=*/true},
      {"fold_time", fold_time, /*optional=*/false, /*by_position=*/true},
      {"cut_stages", cut_stages},
      {"fuse", fuse, /*optional=*/true},
      {"late_views", late_views, /*optional=*/true},
      {"bucket", bucket, /*optional=*/true},
      {"gather_ahead", gather_ahead, /*optional=*/true},
      {"update_early", update_early, /*optional=*/true},
      {"overlap", overlap, /*optional=*/true},
      {"carry", carry},
      {"in_place", in_place, /*optional=*/true},
      {"delay", delay, /*optional=*/true},
      {"lifetimes", lifetimes, /*optional=*/true},
      {"place", place},
  };
  Lowering lowering = begin(
      graph,
      plan,
      cluster,
      options.rules == nullptr ? std::make_shared<LoweringMemo>()
                               : std::make_shared<LoweringMemo>(options.rules));
  run_passes(passes, lowering, options);
  return std::move(lowering.program);
}

Program lower(
    const Graph& graph, const Plan& plan, const LowerOptions& options) {
  return lower(graph, plan, any_machines(plan), options);
}

Program lower_first_rank(const Graph& graph, const Plan& plan) {
  return lower_first_rank(graph, plan, std::make_shared<LoweringMemo>());
}

Program lower_first_rank(
    const Graph& graph,
    const Plan& plan,
    const std::shared_ptr<LoweringMemo>& memo) {
  WEFT_CHECK(
      stage_count(plan) == 1 && plan.time.axes.empty(),
      "one stage, and no axes of time");
  const Cluster cluster = any_machines(plan);
  Lowering lowering = begin(graph, plan, cluster, memo);
  for (void (*const pass)(Lowering&) :
       {group_rows,
        split_means,
        split_batch_norms,
        recompute,
        lay_out,
        shard_alike,
        fuse,
        late_views,
        bucket,
        gather_ahead,
        update_early,
        overlap,
        carry,
        in_place,
        delay,
        lifetimes}) {
    pass(lowering);
    for (Block& block : lowering.program.blocks) {
      renumber(block);
    }
  }
  return std::move(lowering.program);
}

std::set<std::string> kept_from_transfers(
    const Graph& graph, const Plan& plan) {
  if (plan.recompute_collectives) {
    return {};
  }
  const Cluster cluster = any_machines(plan);
  Lowering lowering =
      begin(graph, plan, cluster, std::make_shared<LoweringMemo>());
  group_rows(lowering);
  split_means(lowering);
  split_batch_norms(lowering);
  return exchanged_values(lowering);
}

LaidOutStep lay_out(const Graph& graph, const Plan& plan) {
  WEFT_CHECK(
      stage_count(plan) == 1 && plan.time.axes.empty(),
      "one stage, and no axes of time");
  const Cluster cluster = any_machines(plan);
  Lowering lowering =
      begin(graph, plan, cluster, std::make_shared<LoweringMemo>());
  for (void (*const pass)(Lowering&) :
       {group_rows, split_means, split_batch_norms, propagate_layouts}) {
    pass(lowering);
  }
  return taken_from(std::move(lowering));
}

}  // namespace weft
