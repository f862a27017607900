// SPDX-License-Identifier: Apache-2.0
// Images read at other places than their pixels: grid sampling, and patches
// laid out as columns. n = samples, c = channels.
#include "base/error.h"
#include "base/text.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <utility>

namespace weft {
namespace {

// (input, grid, ...): the grid says where to read, k = coordinates of a place.
std::vector<TensorType> grid_types(const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 0);
  const Dims& grid = type_arg(function, node, 1).sizes;
  Dims sizes(input.sizes.begin(), input.sizes.begin() + 2);
  sizes.insert(sizes.end(), grid.begin() + 1, grid.end() - 1);
  return {in_format_of(input, input.dtype, sizes)};
}

// (grad, input, grid, ..., output_mask)
std::vector<TensorType> grid_backward_types(
    const Function& function, const Node& node) {
  const TensorType& input = type_arg(function, node, 1);
  const TensorType& grid = type_arg(function, node, 2);
  return {
      flag_at(node, 6, 0) ? make_type(input.dtype, input.sizes)
                          : undefined_type(),
      make_type(grid.dtype, grid.sizes)};
}

int64_t patch_size(const Node& node, size_t kernel_at) {
  int64_t size = 1;
  for (int64_t side : dims_arg(node, kernel_at)) {
    size *= side;
  }
  return size;
}

std::string batch_of(const Function& function, const Node& node, size_t ndim) {
  return type_arg(function, node, 0).sizes.size() == ndim ? "n " : "";
}

// (self, kernel, dilation, padding, stride): how many patches there are.
int64_t patch_count(const Function& function, const Node& node) {
  const Dims& sizes = type_arg(function, node, 0).sizes;
  int64_t count = 1;
  for (size_t i = 0; i < 2; ++i) {
    int64_t reach = dim_at(node, 2, i, 1) * (dim_at(node, 1, i, 1) - 1) + 1;
    int64_t room = sizes[sizes.size() - 2 + i] + 2 * dim_at(node, 3, i, 0);
    int64_t step = dim_at(node, 4, i, 1);
    WEFT_CHECK(step > 0, "a stride is ", step);
    count *= (room - reach) / step + 1;
  }
  return count;
}

Rule im2col_rule(const Function& function, const Node& node) {
  std::string n = batch_of(function, node, 4);
  return rule_from_text(
      cat(n,
          "c h! w! -> ",
          n,
          "(c k=",
          patch_size(node, 1),
          "!) place=",
          patch_count(function, node),
          "!"),
      function,
      node);
}

// Row-major, of the sizes that the rule says.
TypesFunction types_by(const RuleFunction& rule) {
  return [rule](const Function& function, const Node& node) {
    return std::vector<TensorType>{make_type(
        type_arg(function, node, 0).dtype,
        result_sizes(rule(function, node), 0))};
  };
}

Rule col2im_rule(const Function& function, const Node& node) {
  std::string n = batch_of(function, node, 3);
  Dims sizes = dims_arg(node, 1);
  return rule_from_text(
      cat(n,
          "(c k=",
          patch_size(node, 2),
          "!) place! -> ",
          n,
          "c h=",
          sizes[0],
          "! w=",
          sizes[1],
          "!"),
      function,
      node);
}

}  // namespace

void add_sampling_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.grid_sampler_2d",
      .rule = "n c h! w!, n i j k! -> n c i j",
      .types = grid_types,
      .backward = "aten.grid_sampler_2d_backward",
      .examples = {"(f32[4, 8, 6, 6], f32[4, 8, 4, 2], 0, 0, false)"},
  });
  ops.push_back({
      .name = "aten.grid_sampler_2d_backward",
      .rule = "n c i j, n c h! w!, n i j k! -> n c h! w!, n i j k!",
      .linear = Linear::First,
      .types = grid_backward_types,
      .examples =
          {"(f32[4, 8, 8, 4], f32[4, 8, 6, 6], f32[4, 8, 4, 2], 0, 0, false, "
           "[true, true])",
           "(f32[4, 8, 8, 4], f32[4, 8, 6, 6], f32[4, 8, 4, 2], 0, 0, false, "
           "[false, true])"},
  });
  ops.push_back({
      .name = "aten.grid_sampler_3d",
      .rule = "n c d! h! w!, n i j l k! -> n c i j l",
      .types = grid_types,
      .backward = "aten.grid_sampler_3d_backward",
      .examples = {"(f32[4, 4, 4, 6, 6], f32[4, 4, 4, 4, 3], 0, 0, false)"},
  });
  ops.push_back({
      .name = "aten.grid_sampler_3d_backward",
      .rule = "n c i j l, n c d! h! w!, n i j l k! -> n c d! h! w!, n i j l k!",
      .linear = Linear::First,
      .types = grid_backward_types,
      .examples =
          {"(f32[4, 4, 4, 4, 4], f32[4, 4, 4, 6, 6], f32[4, 4, 4, 4, 3], 0, "
           "0, false, [true, true])"},
  });
  ops.push_back({
      .name = "aten.im2col",
      .rule_of = im2col_rule,
      .linear = Linear::All,
      .types = types_by(im2col_rule),
      .backward = "aten.col2im",
      .examples =
          {"(f32[4, 8, 6, 6], [3, 3], [1, 1], [1, 1], [2, 2])",
           "(f32[8, 6, 6], [3, 3], [1, 1], [1, 1], [2, 2])"},
  });
  ops.push_back({
      .name = "aten.col2im",
      .rule_of = col2im_rule,
      .linear = Linear::All,
      .types = types_by(col2im_rule),
      .backward = "aten.im2col",
      .examples = {"(f32[4, 72, 9], [6, 6], [3, 3], [1, 1], [1, 1], [2, 2])"},
  });
}

}  // namespace weft
