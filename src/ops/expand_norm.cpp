// SPDX-License-Identifier: Apache-2.0
// Layer, RMS and group norm. All are x' = (x - mean) rstd over some dims, then
// a weight and a bias; backward is rstd (g' - mean(g') - x' mean(g' x')) with
// g' = g weight, where RMS norm lacks the means of x and g'.
#include "ops/arithmetic.h"
#include "ops/call.h"
#include "ops/expand.h"
#include "ops/kernel.h"

#include <limits>
#include <numeric>

namespace weft {
namespace {

// None when the argument is absent.
ValueId wide_arg(NodeBuilder& builder, const Node& node, size_t position) {
  const ValueId value = value_arg(node, position);
  return value == ValueId::None ? value : widened(builder, value);
}

ValueId times(NodeBuilder& builder, ValueId a, ValueId weight) {
  return weight == ValueId::None ? a : mul(builder, a, weight);
}

// The dims from `first` to before `end`.
Dims dims_between(size_t first, size_t end) {
  Dims dims(end - first);
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(first));
  return dims;
}

struct Normed {
  ValueId output = ValueId::None;
  // None without.
  ValueId mean = ValueId::None;
  ValueId rstd = ValueId::None;
};

Normed normed(
    NodeBuilder& builder,
    ValueId input,
    const Dims& dims,
    bool has_mean,
    double eps) {
  Normed result;
  if (has_mean) {
    result.mean = mean_over(builder, input, dims);
    input = sub(builder, input, result.mean);
  }
  const ValueId variance = mean_over(builder, mul(builder, input, input), dims);
  result.rstd = apply(builder, "aten.rsqrt", add(builder, variance, eps));
  result.output = mul(builder, input, result.rstd);
  return result;
}

// `grad` already times the weight.
ValueId input_gradient(
    NodeBuilder& builder,
    ValueId grad,
    ValueId unit,
    ValueId rstd,
    const Dims& dims,
    bool has_mean) {
  const ValueId along = mean_over(builder, mul(builder, grad, unit), dims);
  ValueId rest = sub(builder, grad, mul(builder, unit, along));
  if (has_mean) {
    rest = sub(builder, rest, mean_over(builder, grad, dims));
  }
  return mul(builder, rest, rstd);
}

// Summed over the dims and of the result's sizes.
ValueId parameter_gradient(
    NodeBuilder& builder,
    ValueId each,
    const Dims& dims,
    const TensorType& type) {
  return view(builder, sum_over(builder, each, dims), type.sizes);
}

bool is_asked(NodeBuilder& builder, const Node& node, size_t result) {
  return !is_undefined(builder.type(node.results.at(result)));
}

double default_eps(DType dtype) {
  return dtype == DType::F64
             ? std::numeric_limits<double>::epsilon()
             : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// The dims that a normalized shape covers: the last ones.
Dims last_dims(NodeBuilder& builder, ValueId input, size_t count) {
  const size_t ndim = builder.type(input).sizes.size();
  return dims_between(ndim - count, ndim);
}

Dims first_dims(NodeBuilder& builder, ValueId input, size_t count) {
  return dims_between(0, builder.type(input).sizes.size() - count);
}

// Layer and RMS norm's backward: positions of grad and input are 0 and 1.
struct Backward {
  ValueId mean = ValueId::None;
  ValueId rstd = ValueId::None;
  ValueId weight = ValueId::None;
};

Expanded rows_backward(
    NodeBuilder& builder, const Node& node, const Backward& with) {
  const ValueId grad = wide_arg(builder, node, 0);
  const ValueId input = wide_arg(builder, node, 1);
  const size_t count = dims_arg(node, 2).size();
  const Dims dims = last_dims(builder, input, count);
  const Dims rows = first_dims(builder, input, count);
  const bool has_mean = with.mean != ValueId::None;
  const ValueId unit = mul(
      builder, has_mean ? sub(builder, input, with.mean) : input, with.rstd);
  Expanded results(node.results.size(), ValueId::None);
  if (is_asked(builder, node, 0)) {
    const ValueId weighted = times(builder, grad, with.weight);
    results[0] =
        input_gradient(builder, weighted, unit, with.rstd, dims, has_mean);
  }
  if (is_asked(builder, node, 1)) {
    results[1] = parameter_gradient(
        builder, mul(builder, grad, unit), rows, builder.type(node.results[1]));
  }
  if (results.size() > 2 && is_asked(builder, node, 2)) {
    results[2] =
        parameter_gradient(builder, grad, rows, builder.type(node.results[2]));
  }
  return in_types_of(builder, node, results);
}

// Channels as groups of channels: [n, c, ...] to [n, g, c / g, ...].
struct Groups {
  int64_t count = 1;
  Dims image;
  Dims statistics;
  Dims weight;
  // The dims that are normalized, and those over which a weight's gradient is
  // summed.
  Dims normalized;
  Dims repeated;

  Groups(const Dims& sizes, int64_t group_count) : count(group_count) {
    const int64_t inside = sizes.at(1) / count;
    image = {sizes[0], count, inside};
    statistics = {sizes[0], count, 1};
    weight = {count, inside};
    normalized = {2};
    repeated = {0};
    for (size_t i = 2; i < sizes.size(); ++i) {
      image.push_back(sizes[i]);
      statistics.push_back(1);
      weight.push_back(1);
      normalized.push_back(static_cast<int64_t>(i + 1));
      repeated.push_back(static_cast<int64_t>(i + 1));
    }
  }
};

ValueId viewed_arg(
    NodeBuilder& builder, const Node& node, size_t position, const Dims& as) {
  const ValueId value = wide_arg(builder, node, position);
  return value == ValueId::None ? value : view(builder, value, as);
}

}  // namespace

// (input, normalized_shape, weight, bias, eps)
Expanded expand_layer_norm(NodeBuilder& builder, const Node& node) {
  const ValueId input = wide_arg(builder, node, 0);
  const Dims dims = last_dims(builder, input, dims_arg(node, 1).size());
  const Normed norm =
      normed(builder, input, dims, true, number_arg(node, 4, 1e-5));
  const ValueId weight = wide_arg(builder, node, 2);
  const ValueId bias = wide_arg(builder, node, 3);
  ValueId output = times(builder, norm.output, weight);
  if (bias != ValueId::None) {
    output = add(builder, output, bias);
  }
  return in_types_of(builder, node, {output, norm.mean, norm.rstd});
}

// (grad, input, normalized_shape, mean, rstd, weight, bias, output_mask)
Expanded expand_layer_norm_backward(NodeBuilder& builder, const Node& node) {
  return rows_backward(
      builder,
      node,
      {.mean = wide_arg(builder, node, 3),
       .rstd = wide_arg(builder, node, 4),
       .weight = wide_arg(builder, node, 5)});
}

// (input, normalized_shape, weight, eps)
Expanded expand_rms_norm(NodeBuilder& builder, const Node& node) {
  const ValueId input = wide_arg(builder, node, 0);
  const Dims dims = last_dims(builder, input, dims_arg(node, 1).size());
  const double eps =
      number_arg(node, 3, default_eps(builder.type(input).dtype));
  const Normed norm = normed(builder, input, dims, false, eps);
  const ValueId weight = wide_arg(builder, node, 2);
  return in_types_of(
      builder, node, {times(builder, norm.output, weight), norm.rstd});
}

// (grad, input, normalized_shape, rstd, weight, output_mask)
Expanded expand_rms_norm_backward(NodeBuilder& builder, const Node& node) {
  return rows_backward(
      builder,
      node,
      {.mean = ValueId::None,
       .rstd = wide_arg(builder, node, 3),
       .weight = wide_arg(builder, node, 4)});
}

// (input, weight, bias, N, C, HxW, group, eps)
Expanded expand_group_norm(NodeBuilder& builder, const Node& node) {
  const Dims sizes = builder.type(value_arg(node, 0)).sizes;
  const Groups groups(sizes, int_arg(node, 6, 1));
  const ValueId input = viewed_arg(builder, node, 0, groups.image);
  const Normed norm = normed(
      builder, input, groups.normalized, true, number_arg(node, 7, 1e-5));
  const ValueId weight = viewed_arg(builder, node, 1, groups.weight);
  const ValueId bias = viewed_arg(builder, node, 2, groups.weight);
  ValueId output = times(builder, norm.output, weight);
  if (bias != ValueId::None) {
    output = add(builder, output, bias);
  }
  const Dims rows = {sizes[0], groups.count};
  return in_types_of(
      builder,
      node,
      {view(builder, output, sizes),
       view(builder, norm.mean, rows),
       view(builder, norm.rstd, rows)});
}

// (grad, input, mean, rstd, weight, N, C, HxW, group, output_mask)
Expanded expand_group_norm_backward(NodeBuilder& builder, const Node& node) {
  const Dims sizes = builder.type(value_arg(node, 1)).sizes;
  const Groups groups(sizes, int_arg(node, 8, 1));
  const ValueId grad = viewed_arg(builder, node, 0, groups.image);
  const ValueId input = viewed_arg(builder, node, 1, groups.image);
  const ValueId mean = viewed_arg(builder, node, 2, groups.statistics);
  const ValueId rstd = viewed_arg(builder, node, 3, groups.statistics);
  const ValueId weight = viewed_arg(builder, node, 4, groups.weight);
  const ValueId unit = mul(builder, sub(builder, input, mean), rstd);
  Expanded results(3, ValueId::None);
  if (is_asked(builder, node, 0)) {
    const ValueId gradient = input_gradient(
        builder,
        times(builder, grad, weight),
        unit,
        rstd,
        groups.normalized,
        true);
    results[0] = view(builder, gradient, sizes);
  }
  if (is_asked(builder, node, 1)) {
    results[1] = parameter_gradient(
        builder,
        mul(builder, grad, unit),
        groups.repeated,
        builder.type(node.results[1]));
  }
  if (is_asked(builder, node, 2)) {
    results[2] = parameter_gradient(
        builder, grad, groups.repeated, builder.type(node.results[2]));
  }
  return in_types_of(builder, node, results);
}

}  // namespace weft
