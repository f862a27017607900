// SPDX-License-Identifier: Apache-2.0
// The passes in order: the table of contents of this folder.
#include "base/error.h"
#include "lower/lower.h"
#include "lower/pass.h"
#include "plan/plan_place.h"

namespace weft {

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
  Lowering lowering = {
      .plan = plan,
      .cluster = cluster,
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
  run_passes(passes, lowering, options);
  return std::move(lowering.program);
}

Program lower(
    const Graph& graph, const Plan& plan, const LowerOptions& options) {
  Cluster cluster;
  cluster.name = "any";
  cluster.groups.push_back({"all", rank_count(plan), {}});
  return lower(graph, plan, cluster, options);
}

}  // namespace weft
