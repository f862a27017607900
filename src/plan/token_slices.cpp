// SPDX-License-Identifier: Apache-2.0
#include "plan/token_slices.h"

#include "ops/op_def.h"
#include "profile/call_seconds.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace weft {
namespace {

constexpr int64_t kMostUnits = 32;
// Above so many different costs of slices, those that are this much alike count
// as one.
constexpr size_t kManyCosts = 4096;
constexpr double kAlike = 1e-3;
// A slice reads the parameters in forward and once more in backward, and adds
// its gradients to those of the slices before: reads and writes them.
constexpr double kPassesOverParameters = 4;
// What a token sees of an earlier slice is a call, and some that add what it
// makes to the rest: they read both and write the sum, or where results are
// joined otherwise read and write both once more before.
constexpr double kCallsABlock = 7;
constexpr double kTensorsASum = 3;
constexpr double kTensorsAJoin = 7;
// Of the sequence; calls for any slice are taken to reach the rates of this
// one.
constexpr double kUsualShare = 1.0 / 8;

double pairs(int64_t before, int64_t length) {
  const auto l = static_cast<double>(length);
  return l * static_cast<double>(before) + l * (l + 1) / 2;
}

// The shortest way through the sequence with no slice above a cost.
class Shortest {
 public:
  Shortest(const SliceCosts& costs, int64_t length) : costs_(costs) {
    const int64_t unit = (length + kMostUnits - 1) / kMostUnits;
    for (int64_t at = 0; at < length; at += unit) {
      starts_.push_back(at);
    }
    starts_.push_back(length);
  }

  // Every cost of a slice might be that of the longest one. Of those that are
  // nearly the same, the largest.
  std::vector<double> all_costs() const {
    std::set<double> all;
    for (size_t i = 0; i < starts_.size(); ++i) {
      for (size_t k = i + 1; k < starts_.size(); ++k) {
        for (size_t earlier = 0; earlier <= i; ++earlier) {
          all.insert(cost(earlier, i, k));
        }
      }
    }
    std::vector<double> out;
    for (const double each : all) {
      if (out.size() > 1 && all.size() > kManyCosts &&
          each < out[out.size() - 2] * (1 + kAlike)) {
        out.back() = each;
      } else {
        out.push_back(each);
      }
    }
    return out;
  }

  // The lengths on it; none when there is no way.
  std::vector<int64_t> run(double most) const {
    const size_t count = starts_.size();
    // By how many slices there are and where the last one ends.
    std::vector<std::vector<Way>> to(count, std::vector<Way>(count));
    to[0][0].total = 0;
    size_t best = 0;
    for (size_t n = 1; n < count; ++n) {
      for (size_t i = n - 1; i < count; ++i) {
        for (size_t k = i + 1; k < count && to[n - 1][i].is_there(); ++k) {
          const double one = cost(n - 1, i, k);
          if (one > most) {
            break;
          }
          const double total = to[n - 1][i].total + one;
          if (total < to[n][k].total) {
            to[n][k] = {total, i};
          }
        }
      }
      if (to[n].back().total < to[best].back().total) {
        best = n;
      }
    }
    std::vector<int64_t> lengths;
    for (size_t k = count - 1; best > 0; --best) {
      const size_t from = to[best][k].from;
      lengths.push_back(starts_[k] - starts_[from]);
      k = from;
    }
    std::reverse(lengths.begin(), lengths.end());
    return lengths;
  }

 private:
  struct Way {
    double total = std::numeric_limits<double>::infinity();
    size_t from = 0;
    bool is_there() const { return !std::isinf(total); }
  };

  // Of the slice from one start to another.
  double cost(size_t earlier, size_t from, size_t to) const {
    return slice_cost(
        costs_,
        static_cast<int64_t>(earlier),
        starts_[from],
        starts_[to] - starts_[from]);
  }

  const SliceCosts costs_;
  std::vector<int64_t> starts_;
};

}  // namespace

double slice_cost(
    const SliceCosts& costs, int64_t earlier, int64_t before, int64_t length) {
  const auto l = static_cast<double>(length);
  return costs.slice + costs.token * l + costs.pair * pairs(before, length) +
         (costs.block + costs.block_token * l) * static_cast<double>(earlier);
}

double pipeline_cost(
    const SliceCosts& costs,
    const SliceShape& shape,
    const std::vector<int64_t>& lengths) {
  double total = 0;
  double largest = 0;
  int64_t before = 0;
  int64_t earlier = 0;
  for (const int64_t length : lengths) {
    const double cost = slice_cost(costs, earlier, before, length);
    total += cost;
    largest = std::max(largest, cost);
    before += length;
    ++earlier;
  }
  return total * static_cast<double>(shape.micro_batches) +
         largest * static_cast<double>(shape.stages - 1);
}

std::vector<int64_t> best_slices(
    const SliceCosts& costs, const SliceShape& shape) {
  const Shortest shortest(costs, shape.length);
  std::vector<int64_t> best = {shape.length};
  double least = pipeline_cost(costs, shape, best);
  for (const double most : shortest.all_costs()) {
    if (most * static_cast<double>(shape.stages - 1) >= least) {
      break;
    }
    std::vector<int64_t> lengths = shortest.run(most);
    if (!lengths.empty() && pipeline_cost(costs, shape, lengths) < least) {
      least = pipeline_cost(costs, shape, lengths);
      best = std::move(lengths);
    }
  }
  return best;
}

namespace {

int64_t scaled(int64_t size, double share) {
  return size == 0 ? 0
                   : std::max<int64_t>(
                         1, std::llround(static_cast<double>(size) * share));
}

// That share of a call's work, nothing of it hidden.
NodeCosts part_of(NodeCosts costs, double share) {
  costs.product.rows = scaled(costs.product.rows, share);
  costs.flops = scaled(costs.flops, share);
  costs.hidden_flops = 0;
  costs.functions = scaled(costs.functions, share);
  costs.read_bytes = scaled(costs.read_bytes, share);
  costs.written_bytes = scaled(costs.written_bytes, share);
  return costs;
}

// Of a slice, beyond what any call costs.
double work_seconds(
    const NodeCosts& costs, double share, DType dtype, const Device& device) {
  return call_seconds(part_of(costs, share), dtype, device) -
         device.call_seconds;
}

}  // namespace

SliceCosts slice_costs(
    const Function& step, const Device& device, const SliceShape& shape) {
  const double usual = static_cast<double>(shape.length) * kUsualShare;
  // A micro-batch's part of a slice.
  const double share = kUsualShare / static_cast<double>(shape.micro_batches);
  SliceCosts sum = {.token = 0};
  const std::vector<NodeCosts> all = node_costs(step, signatures(step));
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    const Node& node = step.nodes[i];
    if (node.phase == Phase::Optimizer || all[i].is_free) {
      continue;
    }
    const DType dtype = step[node.results.front()].type.dtype;
    const OpDef* def = find_op(node.op);
    sum.slice += device.call_seconds;
    if (def == nullptr || !def->blocks) {
      sum.token += work_seconds(all[i], share, dtype, device) / usual;
      continue;
    }
    sum.pair += work_seconds(all[i], share * kUsualShare, dtype, device) /
                (usual * usual);
    sum.block += kCallsABlock * device.call_seconds;
    const double tensors = def->blocks->join ? kTensorsAJoin : kTensorsASum;
    sum.block_token += tensors * share *
                       static_cast<double>(all[i].written_bytes) /
                       device.memory_bytes_per_second / usual;
  }
  double parameter_bytes = 0;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter) {
      parameter_bytes +=
          static_cast<double>(storage_bytes(step[input.value].type));
    }
  }
  sum.slice +=
      kPassesOverParameters * parameter_bytes / device.memory_bytes_per_second;
  const auto stages = static_cast<double>(shape.stages);
  return {
      .slice = sum.slice / stages,
      .block = sum.block / stages,
      .block_token = sum.block_token / stages,
      .token = sum.token / stages,
      .pair = sum.pair / stages};
}

}  // namespace weft
