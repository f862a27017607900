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
// A slice reads the parameters in forward and once more in backward, and adds
// its gradients to those of the slices before: reads and writes them.
constexpr double kPassesOverParameters = 4;

double pairs(int64_t before, int64_t length) {
  const auto l = static_cast<double>(length);
  return l * static_cast<double>(before) + l * (l + 1) / 2;
}

// The shortest way through the sequence with no slice above a cost.
class Shortest {
 public:
  Shortest(const SliceCosts& costs, int64_t length) {
    const int64_t unit = (length + kMostUnits - 1) / kMostUnits;
    for (int64_t at = 0; at < length; at += unit) {
      starts_.push_back(at);
    }
    starts_.push_back(length);
    const size_t count = starts_.size();
    cost_.assign(count, std::vector<double>(count, 0));
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = i + 1; k < count; ++k) {
        cost_[i][k] = slice_cost(costs, starts_[i], starts_[k] - starts_[i]);
      }
    }
  }

  std::set<double> all_costs() const {
    std::set<double> out;
    for (size_t i = 0; i < starts_.size(); ++i) {
      out.insert(
          cost_[i].begin() + static_cast<std::ptrdiff_t>(i) + 1,
          cost_[i].end());
    }
    return out;
  }

  // The lengths on it; none when there is no way.
  std::vector<int64_t> run(double most) const {
    struct Way {
      double total = std::numeric_limits<double>::infinity();
      size_t from = 0;
    };
    std::vector<Way> to(starts_.size());
    for (size_t k = 0; k < to.size(); ++k) {
      to[k].total = k == 0 ? 0 : to[k].total;
      for (size_t i = 0; i < k; ++i) {
        const double total = to[i].total + cost_[i][k];
        if (cost_[i][k] <= most && total < to[k].total) {
          to[k] = {total, i};
        }
      }
    }
    std::vector<int64_t> lengths;
    for (size_t k = to.size() - 1; k > 0; k = to[k].from) {
      if (std::isinf(to[k].total)) {
        return {};
      }
      lengths.push_back(starts_[k] - starts_[to[k].from]);
    }
    std::reverse(lengths.begin(), lengths.end());
    return lengths;
  }

 private:
  std::vector<int64_t> starts_;
  // Of the slice from one start to another.
  std::vector<std::vector<double>> cost_;
};

}  // namespace

double slice_cost(const SliceCosts& costs, int64_t before, int64_t length) {
  return costs.slice + costs.token * static_cast<double>(length) +
         costs.pair * pairs(before, length);
}

double pipeline_cost(
    const SliceCosts& costs,
    const SliceShape& shape,
    const std::vector<int64_t>& lengths) {
  double total = 0;
  double largest = 0;
  int64_t before = 0;
  for (const int64_t length : lengths) {
    const double cost = slice_cost(costs, before, length);
    total += cost;
    largest = std::max(largest, cost);
    before += length;
  }
  return total * static_cast<double>(shape.micro_batches) +
         largest * static_cast<double>(shape.stages - 1);
}

std::vector<int64_t> best_slices(
    const SliceCosts& costs, const SliceShape& shape) {
  const Shortest shortest(costs, shape.length);
  std::vector<int64_t> best = {shape.length};
  double least = pipeline_cost(costs, shape, best);
  // Every cost of a slice might be that of the longest one.
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
  double by_token = 0;
  double by_pair = 0;
  DType dtype = DType::F32;
  for (const Node& node : step.nodes) {
    if (node.phase == Phase::Optimizer) {
      continue;
    }
    const OpDef* def = find_op(node.op);
    const auto flops = static_cast<double>(flops_of(step, node));
    (def != nullptr && def->blocks ? by_pair : by_token) += flops;
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
      .token = by_token / rate / length,
      .pair = by_pair / rate / (length * length)};
}

}  // namespace weft
