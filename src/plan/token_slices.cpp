// SPDX-License-Identifier: Apache-2.0
#include "plan/token_slices.h"

#include "ops/op_def.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace weft {
namespace {

constexpr int64_t kMostUnits = 64;
// Above so many different costs of slices, those that are this much alike count
// as one.
constexpr size_t kManyCosts = 4096;
constexpr double kAlike = 1e-3;
// A slice reads the parameters in forward and once more in backward, and adds
// its gradients to those of the slices before: reads and writes them.
constexpr double kPassesOverParameters = 4;
// What a token sees of an earlier slice is a call, and some that add what it
// makes to the rest.
constexpr double kCallsABlock = 7;

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
  return costs.slice + costs.block * static_cast<double>(earlier) +
         costs.token * static_cast<double>(length) +
         costs.pair * pairs(before, length);
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

SliceCosts slice_costs(
    const Function& step, const Device& device, const SliceShape& shape) {
  double calls = 0;
  double calls_a_block = 0;
  double by_token = 0;
  double by_pair = 0;
  DType dtype = DType::F32;
  for (const Node& node : step.nodes) {
    if (node.phase == Phase::Optimizer) {
      continue;
    }
    const OpDef* def = find_op(node.op);
    const auto flops = static_cast<double>(flops_of(step, node));
    const bool has_blocks = def != nullptr && def->blocks;
    (has_blocks ? by_pair : by_token) += flops;
    calls_a_block += has_blocks ? kCallsABlock : 0;
    calls += is_view(node) ? 0 : 1;
  }
  double parameter_bytes = 0;
  for (const Input& input : step.inputs) {
    if (input.kind == InputKind::Parameter) {
      const TensorType& type = step[input.value].type;
      dtype = type.dtype;
      parameter_bytes += static_cast<double>(element_count(type)) *
                         static_cast<double>(element_bytes(type.dtype));
    }
  }
  const auto stages = static_cast<double>(shape.stages);
  const auto parts = static_cast<double>(shape.micro_batches);
  const auto length = static_cast<double>(shape.length);
  const double rate = flops_per_second(device, dtype) * stages * parts;
  return {
      .slice = (calls * device.call_seconds +
                kPassesOverParameters * parameter_bytes /
                    device.memory_bytes_per_second) /
               stages,
      .block = calls_a_block * device.call_seconds / stages,
      .token = by_token / rate / length,
      .pair = by_pair / rate / (length * length)};
}

}  // namespace weft
