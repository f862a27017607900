// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: the transformed dims stay whole.
#include "ops/call.h"
#include "ops/families.h"
#include "ops/words.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// The last dim named loses its redundant half (or gets it back).
Dims transformed_sizes(const Function& function, const Node& node) {
  Dims sizes = operand_type(function, node, 0).sizes;
  auto last =
      static_cast<size_t>(wrap_dim(dims_arg(node, 1).back(), sizes.size()));
  if (node.op == "aten._fft_r2c" && bool_arg(node, 3, true)) {
    sizes[last] = sizes[last] / 2 + 1;
  } else if (node.op == "aten._fft_c2r") {
    sizes[last] = int_arg(node, 3, 0);
  }
  return sizes;
}

Rule fft_rule(const Function& function, const Node& node) {
  const Dims& before = operand_type(function, node, 0).sizes;
  Dims after = transformed_sizes(function, node);
  Words from = dim_words(before.size());
  Words to = from;
  for (int64_t named : dims_arg(node, 1)) {
    auto dim = static_cast<size_t>(wrap_dim(named, before.size()));
    from[dim] = cat("from", dim, "!");
    to[dim] = cat("to", dim, "=", after[dim], "!");
  }
  return rule_from_text(cat(term(from), " -> ", term(to)), function, node);
}

using Order = std::vector<size_t>;

void sort_by_stride(
    Order::iterator from, Order::iterator to, const Dims& strides) {
  std::stable_sort(
      from, to, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
}

// MKL transforms the last dims of a row-major tensor, so the result is laid out
// with the other dims first, in the order of their strides, and the transformed
// ones after them.
Dims transformed_strides(
    const Dims& strides, const Order& transformed, const Dims& sizes) {
  Order order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (std::find(transformed.begin(), transformed.end(), i) ==
        transformed.end()) {
      order.push_back(i);
    }
  }
  sort_by_stride(order.begin(), order.end(), strides);
  order.insert(order.end(), transformed.begin(), transformed.end());
  Dims result(sizes.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    result[order[i]] = next;
    next *= sizes[order[i]];
  }
  return result;
}

// The transformed dims are taken in the order of their strides, but that of
// which one half is left out is last.
std::vector<TensorType> fft_types(const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  Dims sizes = transformed_sizes(function, node);
  Dims strides = strides_of(self);
  Order dims;
  for (int64_t dim : dims_arg(node, 1)) {
    dims.push_back(static_cast<size_t>(wrap_dim(dim, sizes.size())));
  }
  bool all = node.op == "aten._fft_c2c";
  sort_by_stride(dims.begin(), all ? dims.end() : dims.end() - 1, strides);
  bool doubled = self.dtype == DType::F64 || self.dtype == DType::C128;
  DType dtype = doubled ? DType::C128 : DType::C64;
  if (node.op == "aten._fft_c2r") {
    dtype = doubled ? DType::F64 : DType::F32;
    // The other dims first, then this one.
    if (dims.size() > 1) {
      strides = transformed_strides(
          strides, {dims.begin(), dims.end() - 1}, self.sizes);
    }
    dims = {dims.back()};
  }
  return {make_type(dtype, sizes, transformed_strides(strides, dims, sizes))};
}

OpDef fft(std::string_view name, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .rule_of = fft_rule,
      .linear = Linear::All,
      .types = fft_types,
      .examples = std::move(examples),
  };
}

}  // namespace

void add_fft_ops(OpTable& ops) {
  ops.push_back(
      fft("aten._fft_r2c",
          {"(f32[4, 8], [1], 0, true)",
           "(f32[4, 8, 4, 6], [2, 3], 0, true)",
           "(f32[8, 4], [0], 0, true)",
           "(f32[4, 4, 6, 8]{192, 6, 1, 24}, [2, 3], 0, true)"}));
  ops.push_back(
      fft("aten._fft_c2r",
          {"(c64[4, 5], [1], 0, 8)",
           "(c64[5, 4], [0], 0, 8)",
           "(c64[6, 8, 4, 4]{1, 24, 6, 192}, [2, 3], 0, 6)"}));
  ops.push_back(
      fft("aten._fft_c2c",
          {"(c64[4, 8], [1], 0, true)",
           "(c64[4, 6, 8], [1, 2], 0, false)",
           "(c64[8, 4], [0], 0, true)",
           "(c64[6, 8, 4, 4]{1, 24, 6, 192}, [2, 3], 0, true)"}));
}

}  // namespace weft
