// SPDX-License-Identifier: Apache-2.0
// What a node takes one rank, computed in one way, and what it takes to move a
// value from one layout to another: by the cluster's rates, as the simulator
// has them, but each by itself.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"
#include "lower/move.h"
#include "program/program.h"
#include "search/layout_space.h"

#include <cstdint>
#include <map>
#include <string>

namespace weft {

class LayoutCosts {
 public:
  // On the space's mesh; of its axes all but the last are parts of the batch,
  // `micro_batches` of them one after the other. Keeps references.
  LayoutCosts(
      const LayoutSpace& space, const Cluster& cluster, int64_t micro_batches);

  // kImpossible where `to` is a partial sum that `from` is not. Exchanges over
  // other axes than the last happen once for all micro-batches, and count as
  // much less for one.
  double move_seconds(
      const TensorType& type, const Layout& from, const Layout& to) const;

  // Of the first rank.
  double node_seconds(const Node& node, const NodeOption& option) const;

  // Of the first rank's piece.
  double local_bytes(const TensorType& type, const Layout& layout) const;

  int64_t micro_batches() const { return micro_batches_; }

 private:
  double exchange_seconds(TransferKind kind, double taken_bytes) const;
  double step_seconds(const TensorType& type, const MoveStep& step) const;
  double pass_seconds(double bytes) const;
  double call_seconds_of(
      const Node& node, const Rule& rule, const Assignment& assignment) const;
  double expanded_seconds(const Node& node, const NodeOption& option) const;

  const LayoutSpace& space_;
  const Cluster& cluster_;
  const int64_t micro_batches_;
  // With as many points on the other axes as there are ranks.
  Mesh ranks_;
  int64_t axis_ranks_ = 1;
  int64_t other_ranks_ = 1;
  Link axis_link_;
  Link other_link_;
};

}  // namespace weft
