// SPDX-License-Identifier: Apache-2.0
// The types of views of a part: strides are the operand's.
#include "base/error.h"
#include "ops/call.h"
#include "ops/reshape.h"
#include "ops/view_types.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

size_t dim_at(const TensorType& self, const Node& node, size_t position) {
  return static_cast<size_t>(
      wrap_dim(int_arg(node, position, 0), self.sizes.size()));
}

// With another size, and every `step`-th element, in one dim.
TensorType part_of(
    const TensorType& self, size_t dim, int64_t size, int64_t step = 1) {
  Dims sizes = self.sizes;
  Dims strides = strides_of(self);
  sizes.at(dim) = size;
  strides.at(dim) *= step;
  return make_type(self.dtype, std::move(sizes), std::move(strides));
}

TensorType without_dim(const TensorType& self, size_t dim) {
  Dims sizes = self.sizes;
  Dims strides = strides_of(self);
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(dim));
  return make_type(self.dtype, std::move(sizes), std::move(strides));
}

}  // namespace

std::vector<TensorType> same_types(const Function& function, const Node& node) {
  return {operand_type(function, node, 0)};
}

std::vector<TensorType> t_types(const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  if (self.sizes.size() < 2) {
    return {self};
  }
  Dims sizes = self.sizes;
  Dims strides = strides_of(self);
  std::swap(sizes[0], sizes[1]);
  std::swap(strides[0], strides[1]);
  return {make_type(self.dtype, std::move(sizes), std::move(strides))};
}

std::vector<TensorType> slice_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  if (self.sizes.empty()) {
    return {};
  }
  const size_t dim = dim_at(self, node, 1);
  const int64_t size = self.sizes[dim];
  const auto inside = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t start = inside(int_arg(node, 2, 0));
  const int64_t end = std::max(start, inside(int_arg(node, 3, size)));
  const int64_t step = int_arg(node, 4, 1);
  WEFT_CHECK(step > 0, "a step is ", step);
  return {part_of(self, dim, (end - start + step - 1) / step, step)};
}

std::vector<TensorType> narrow_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {part_of(self, dim_at(self, node, 1), int_arg(node, 3, 0))};
}

std::vector<TensorType> select_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  return {without_dim(self, dim_at(self, node, 1))};
}

std::vector<TensorType> diagonal_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  const size_t ndim = self.sizes.size();
  if (ndim < 2) {
    return {};
  }
  const int64_t offset = int_arg(node, 1, 0);
  const auto one = static_cast<size_t>(wrap_dim(int_arg(node, 2, 0), ndim));
  const auto two = static_cast<size_t>(wrap_dim(int_arg(node, 3, 1), ndim));
  const int64_t size = std::min(
      self.sizes[one] + std::min<int64_t>(offset, 0),
      self.sizes[two] - std::max<int64_t>(offset, 0));
  const int64_t stride = strides_of(self)[one] + strides_of(self)[two];
  TensorType rest =
      without_dim(without_dim(self, std::max(one, two)), std::min(one, two));
  Dims strides = strides_of(rest);
  rest.sizes.push_back(std::max<int64_t>(size, 0));
  strides.push_back(stride);
  return {make_type(self.dtype, std::move(rest.sizes), std::move(strides))};
}

std::vector<TensorType> unfold_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  if (self.sizes.empty()) {
    return {};
  }
  const size_t dim = dim_at(self, node, 1);
  const int64_t size = int_arg(node, 2, 1);
  const int64_t step = int_arg(node, 3, 1);
  WEFT_CHECK(step > 0, "a step is ", step);
  Dims sizes = self.sizes;
  Dims strides = strides_of(self);
  sizes.push_back(size);
  strides.push_back(strides[dim]);
  sizes[dim] = (sizes[dim] - size) / step + 1;
  strides[dim] *= step;
  return {make_type(self.dtype, std::move(sizes), std::move(strides))};
}

std::vector<TensorType> unbind_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  const size_t dim = dim_at(self, node, 1);
  return std::vector<TensorType>(
      static_cast<size_t>(self.sizes[dim]), without_dim(self, dim));
}

std::vector<TensorType> split_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  const size_t dim = dim_at(self, node, 2);
  const int64_t size = self.sizes[dim];
  if (size == 0) {
    return {};
  }
  if (node.op.ends_with("split_with_sizes")) {
    std::vector<TensorType> types;
    for (const int64_t part : dims_arg(node, 1)) {
      types.push_back(part_of(self, dim, part));
    }
    return types;
  }
  int64_t part = int_arg(node, 1, 1);
  if (node.op == "aten.chunk") {
    WEFT_CHECK(part > 0, "there are ", part, " chunks");
    part = (size + part - 1) / part;
  }
  if (part <= 0) {
    return {};
  }
  std::vector<TensorType> types;
  for (int64_t at = 0; at < size; at += part) {
    types.push_back(part_of(self, dim, std::min(part, size - at)));
  }
  return types;
}

std::vector<TensorType> squeeze_types(
    const Function& function, const Node& node) {
  TensorType type = operand_type(function, node, 0);
  Dims dims;
  if (node.op == "aten.squeeze") {
    for (size_t i = 0; i < type.sizes.size(); ++i) {
      dims.push_back(static_cast<int64_t>(i));
    }
  } else if (!type.sizes.empty()) {
    dims = wrap_dims(dims_arg(node, 1), type.sizes.size(), false);
  }
  for (size_t i = dims.size(); i-- > 0;) {
    if (type.sizes[static_cast<size_t>(dims[i])] == 1) {
      type = without_dim(type, static_cast<size_t>(dims[i]));
    }
  }
  return {type};
}

std::vector<TensorType> expand_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  Dims sizes = dims_arg(node, 1);
  if (sizes.size() < self.sizes.size()) {
    return {};
  }
  const Dims own = strides_of(self);
  const size_t added = sizes.size() - self.sizes.size();
  Dims strides(sizes.size(), 0);
  for (size_t i = added; i < sizes.size(); ++i) {
    const int64_t size = self.sizes[i - added];
    sizes[i] = sizes[i] == -1 ? size : sizes[i];
    strides[i] = size == 1 && sizes[i] != 1 ? 0 : own[i - added];
  }
  // A new dim of size 1 lies as one that was always there.
  for (size_t i = added; i-- > 0;) {
    if (sizes[i] == 1) {
      strides[i] = i + 1 < sizes.size() ? sizes[i + 1] * strides[i + 1] : 1;
    }
  }
  return {make_type(self.dtype, std::move(sizes), std::move(strides))};
}

}  // namespace weft
