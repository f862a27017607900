// SPDX-License-Identifier: Apache-2.0
#include "ops/view_types.h"

#include "ops/call.h"
#include "ops/reshape.h"

#include <utility>

namespace weft {
namespace {

// Dims that lie one inside the other without gaps, as one.
struct Run {
  int64_t size = 1;
  int64_t stride = 1;
};

// From the fastest to the slowest.
std::vector<Run> runs_of(const TensorType& type) {
  const Dims strides = strides_of(type);
  std::vector<Run> runs;
  for (size_t i = type.sizes.size(); i-- > 0;) {
    const int64_t size = type.sizes[i];
    if (size == 1) {
      continue;
    }
    if (!runs.empty() && strides[i] == runs.back().stride * runs.back().size) {
      runs.back().size *= size;
    } else {
      runs.push_back({size, strides[i]});
    }
  }
  return runs;
}

}  // namespace

std::optional<TensorType> viewed(const TensorType& type, const Dims& sizes) {
  if (is_contiguous(type)) {
    return make_type(type.dtype, sizes);
  }
  const std::vector<Run> runs = runs_of(type);
  Dims strides(sizes.size());
  size_t run = 0;
  // Elements of the run that have a dim.
  int64_t taken = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    const bool used_up = run < runs.size() && taken == runs[run].size;
    if (used_up && sizes[i] != 1) {
      ++run;
      taken = 1;
    }
    if (run == runs.size()) {
      strides[i] = 1;
      continue;
    }
    strides[i] = runs[run].stride * taken;
    taken *= sizes[i];
    if (taken == 0 || runs[run].size % taken != 0) {
      return std::nullopt;
    }
  }
  return make_type(type.dtype, sizes, std::move(strides));
}

std::vector<TensorType> view_types(const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  if (element_count(self) == 0) {
    return {};
  }
  const Dims sizes = resolve_sizes(self.sizes, dims_arg(node, 1));
  if (element_count(make_type(self.dtype, sizes)) != element_count(self)) {
    return {};
  }
  const std::optional<TensorType> type = viewed(self, sizes);
  return type ? std::vector<TensorType>{*type} : std::vector<TensorType>{};
}

std::vector<TensorType> permute_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  const Dims own = strides_of(self);
  Dims sizes;
  Dims strides;
  for (const int64_t dim : dims_arg(node, 1)) {
    const auto at = static_cast<size_t>(wrap_dim(dim, own.size()));
    sizes.push_back(self.sizes.at(at));
    strides.push_back(own[at]);
  }
  return {make_type(self.dtype, std::move(sizes), std::move(strides))};
}

std::vector<TensorType> transpose_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  Dims sizes = self.sizes;
  Dims strides = strides_of(self);
  if (!sizes.empty()) {
    const auto dim =
        static_cast<size_t>(wrap_dim(int_arg(node, 1, 0), sizes.size()));
    const auto other =
        static_cast<size_t>(wrap_dim(int_arg(node, 2, 0), sizes.size()));
    std::swap(sizes[dim], sizes[other]);
    std::swap(strides[dim], strides[other]);
  }
  return {make_type(self.dtype, std::move(sizes), std::move(strides))};
}

std::vector<TensorType> unsqueeze_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  Dims sizes = self.sizes;
  Dims strides = strides_of(self);
  const int64_t dim = wrap_dim(int_arg(node, 1, 0), sizes.size() + 1);
  const auto at = static_cast<size_t>(dim);
  const int64_t stride = at < sizes.size() ? sizes[at] * strides[at] : 1;
  sizes.insert(sizes.begin() + dim, 1);
  strides.insert(strides.begin() + dim, stride);
  return {make_type(self.dtype, std::move(sizes), std::move(strides))};
}

}  // namespace weft
