// SPDX-License-Identifier: Apache-2.0
#include "search/layout_costs.h"

#include "base/error.h"
#include "lower/halo.h"
#include "ops/op_def.h"
#include "ops/split.h"
#include "profile/call_seconds.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"
#include "program/piece.h"
#include "search/choice_problem.h"
#include "simulate/costs.h"

#include <algorithm>

namespace weft {
namespace {

// What an expanded node reads and writes more often than the node itself, and
// how many calls and sums of one number a row it is.
constexpr double kExpandedPasses = 2;
constexpr double kExpandedCalls = 4;
constexpr double kExpandedSums = 2;

TransferKind transfer_of(MoveKind kind) {
  switch (kind) {
    case MoveKind::AllReduce:
      return TransferKind::AllReduce;
    case MoveKind::AllGather:
      return TransferKind::AllGather;
    case MoveKind::ReduceScatter:
      return TransferKind::ReduceScatter;
    case MoveKind::AllToAll:
      return TransferKind::AllToAll;
    case MoveKind::Slice:
      break;
  }
  WEFT_CHECK(false, "a slice is no transfer");
}

std::vector<int64_t> apart(int64_t ranks, int64_t stride) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < ranks; ++i) {
    out.push_back(i * stride);
  }
  return out;
}

// Whether more than one element lies before the cell.
bool is_inner(const Mesh& mesh, const MoveStep& step, int cell) {
  for (int i = 0; i < cell; ++i) {
    const Cell& before = step.cells[static_cast<size_t>(i)];
    if (before.size > ways(mesh, before.axes)) {
      return true;
    }
  }
  return false;
}

Pieces first_pieces(
    const Mesh& mesh, const Rule& rule, const Assignment& assignment) {
  Pieces out;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const int64_t whole = rule.factors[i].size;
    const std::vector<Piece> levels =
        pieces_of(mesh, assignment.factors[i], whole, 0);
    Piece piece = {levels.front().start, 1, whole};
    for (const Piece& level : levels) {
      piece.size *= level.size;
    }
    out.push_back(piece);
  }
  return out;
}

}  // namespace

LayoutCosts::LayoutCosts(
    const LayoutSpace& space, const Cluster& cluster, int64_t micro_batches)
    : space_(space),
      cluster_(cluster),
      micro_batches_(micro_batches),
      ranks_(space.mesh) {
  axis_ranks_ = ranks_.axes.back().size;
  const int64_t parts = rank_count(ranks_) / axis_ranks_;
  other_ranks_ = std::max<int64_t>(parts / micro_batches, 1);
  // All other axes are parts of the batch; of one of them, fewer are ranks.
  if (ranks_.axes.size() > 1) {
    Axis& first = ranks_.axes.front();
    first.size = std::max<int64_t>(first.size / micro_batches, 1);
  }
  axis_link_ = link_between(cluster, apart(axis_ranks_, 1));
  if (other_ranks_ > 1) {
    other_link_ = link_between(cluster, apart(other_ranks_, axis_ranks_));
  }
}

double LayoutCosts::exchange_seconds(
    TransferKind kind, double taken_bytes) const {
  return transfer_seconds(
      kind, axis_ranks_, static_cast<int64_t>(taken_bytes), axis_link_);
}

double LayoutCosts::pass_seconds(double bytes) const {
  return cluster_.device.call_seconds +
         2 * bytes / cluster_.device.memory_bytes_per_second;
}

double LayoutCosts::step_seconds(
    const TensorType& type, const MoveStep& step) const {
  if (step.kind == MoveKind::Slice) {
    return 0;
  }
  const TransferKind kind = transfer_of(step.kind);
  double seconds = 0;
  for (const std::string& axis : step.axes) {
    MoveStep alone = step;
    alone.axes = {axis};
    if (axis != space_.axis) {
      seconds +=
          other_ranks_ == 1
              ? 0
              : transfer_seconds(
                    kind,
                    other_ranks_,
                    static_cast<int64_t>(step_bytes(ranks_, type, alone)),
                    other_link_) /
                    static_cast<double>(micro_batches_);
      continue;
    }
    seconds += exchange_seconds(kind, step_bytes(space_.mesh, type, alone));
    // Pieces of an inner dim are packed before or unpacked after they travel.
    double bytes = static_cast<double>(element_count(type)) *
                   static_cast<double>(element_bytes(type.dtype));
    for (const Cell& cell : step.cells) {
      bytes /= static_cast<double>(ways(space_.mesh, cell.axes));
    }
    if (step.cell >= 0 && is_inner(space_.mesh, step, step.cell)) {
      seconds += pass_seconds(
          step.kind == MoveKind::AllGather
              ? bytes * static_cast<double>(axis_ranks_)
              : bytes);
    }
    if (step.from >= 0 && is_inner(space_.mesh, step, step.from)) {
      seconds += pass_seconds(bytes);
    }
  }
  return seconds;
}

double LayoutCosts::move_seconds(
    const TensorType& type, const Layout& from, const Layout& to) const {
  if (from == to) {
    return 0;
  }
  for (const std::string& axis : to.partial) {
    if (!contains(from.partial, axis)) {
      return kImpossible;
    }
  }
  double seconds = 0;
  for (const MoveStep& step : find_move(space_.mesh, type, from, to)) {
    seconds += step_seconds(type, step);
  }
  return seconds;
}

double LayoutCosts::call_seconds_of(
    const Node& node, const Rule& rule, const Assignment& assignment) const {
  const OpDef* def = find_op(node.op);
  const Function& step = space_.step();
  const DType dtype = step[node.results.front()].type.dtype;
  if (is_view(node)) {
    return 0;
  }
  if (def == nullptr) {
    // Whole on every rank.
    Function alone;
    alone.values = step.values;
    alone.nodes = {node};
    return call_seconds(node_costs(alone, {0}).front(), dtype, cluster_.device);
  }
  const LocalCall call = local_call(
      *def, step, node, rule, first_pieces(space_.mesh, rule, assignment));
  double seconds = 0;
  for (const NodeCosts& costs :
       node_costs(call.function, signatures(call.function))) {
    seconds += call_seconds(costs, dtype, cluster_.device);
  }
  return seconds;
}

double LayoutCosts::expanded_seconds(
    const Node& node, const NodeOption& option) const {
  const Rule rule = rule_of(space_.step(), node);
  Assignment whole = option.assignment;
  const auto factor = static_cast<size_t>(*option.expanded_factor);
  whole.factors[factor].clear();
  const double seconds = call_seconds_of(node, rule, whole);
  double largest = 0;
  const std::vector<ValueId> read = operands(node);
  for (size_t i = 0; i < read.size(); ++i) {
    largest = std::max(
        largest, local_bytes(space_.step()[read[i]].type, option.needs[i]));
  }
  const double sum_bytes = largest * static_cast<double>(axis_ranks_) /
                           static_cast<double>(rule.factors[factor].size);
  return kExpandedPasses * seconds / static_cast<double>(axis_ranks_) +
         kExpandedCalls * cluster_.device.call_seconds +
         kExpandedSums *
             exchange_seconds(TransferKind::AllReduce, 2 * sum_bytes);
}

double LayoutCosts::node_seconds(
    const Node& node, const NodeOption& option) const {
  if (option.expanded_factor) {
    return expanded_seconds(node, option);
  }
  const Function& step = space_.step();
  const Rule rule = rule_of(step, node);
  double seconds = call_seconds_of(node, rule, option.assignment);
  for (size_t i = 0; i < node.results.size(); ++i) {
    for (const Join& join :
         joins_of(rule, option.assignment, static_cast<int>(i))) {
      if (contains(join.axes, space_.axis)) {
        seconds += exchange_seconds(
            TransferKind::AllReduce,
            2 * local_bytes(step[node.results[i]].type, option.makes[i]));
      }
    }
  }
  if (splits_windows(rule, option.assignment)) {
    double bytes = 0;
    const std::vector<ValueId> read = operands(node);
    const auto add = [&](TensorPlace place, ValueId value) {
      bytes += halo_bytes(
          space_.mesh, rule, option.assignment, place, step[value].type);
    };
    for (size_t i = 0; i < read.size(); ++i) {
      add({.in_result = false, .tensor = static_cast<int>(i)}, read[i]);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      add({.in_result = true, .tensor = static_cast<int>(i)}, node.results[i]);
    }
    seconds += transfer_seconds(
        TransferKind::Send, 2, static_cast<int64_t>(bytes), axis_link_);
  }
  return seconds;
}

double LayoutCosts::local_bytes(
    const TensorType& type, const Layout& layout) const {
  return static_cast<double>(
      storage_bytes(local_type(type, layout, space_.mesh, 0)));
}

}  // namespace weft
