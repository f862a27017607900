// SPDX-License-Identifier: Apache-2.0
// Ops whose results lie in the storage of their operand, all of it;
// view_parts.cpp has those that take some of it.
#include "base/error.h"
#include "ops/call.h"
#include "ops/families.h"
#include "ops/reshape.h"
#include "ops/view_entry.h"
#include "ops/view_types.h"
#include "ops/words.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

Rule view_rule(const Function& function, const Node& node) {
  const Dims& from = operand_type(function, node, 0).sizes;
  return reshape_rule(from, resolve_sizes(from, dims_arg(node, 1)));
}

// Bits read as another type: the last dim changes with the bytes an element.
Rule bits_rule(const Function& function, const Node& node) {
  const TensorType& from = operand_type(function, node, 0);
  DType to = std::get<DType>(node.args.at(1).data);
  bool same = element_bytes(from.dtype) == element_bytes(to);
  return rule_from_text(
      same ? "... -> ..." : "... from! -> ... to!", function, node);
}

Rule expand_rule(const Function& function, const Node& node) {
  Words to = dim_words(dims_arg(node, 1).size());
  auto ndim = static_cast<std::ptrdiff_t>(ndim_of(function, node));
  Words from(to.end() - ndim, to.end());
  // New dims have only the stated size.
  Dims sizes = dims_arg(node, 1);
  for (size_t i = 0; i < to.size(); ++i) {
    if (sizes[i] > 0) {
      to[i] += cat("=", sizes[i]);
    }
  }
  return to_rule(function, node, from, to);
}

Words permuted(const Words& from, const Dims& order) {
  Words to;
  for (int64_t dim : order) {
    to.push_back(from[static_cast<size_t>(wrap_dim(dim, from.size()))]);
  }
  return to;
}

Rule permute_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  return to_rule(function, node, from, permuted(from, dims_arg(node, 1)));
}

Rule transpose_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  Words to = from;
  if (!to.empty()) {
    std::swap(
        to[dim_of(function, node, 1, 0)], to[dim_of(function, node, 2, 0)]);
  }
  return to_rule(function, node, from, to);
}

Rule t_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  return to_rule(function, node, from, {from.rbegin(), from.rend()});
}

Rule unsqueeze_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  auto dim = wrap_dim(int_arg(node, 1, 0), from.size() + 1);
  Words to = from;
  to.insert(to.begin() + dim, "1");
  return to_rule(function, node, from, to);
}

// The dims of size 1 that squeeze drops: those it names, or all.
Dims squeezed_dims(const Function& function, const Node& node) {
  const Dims& sizes = operand_type(function, node, 0).sizes;
  Dims named = wrap_dims(
      dims_arg(node, 1),
      sizes.size(),
      /*empty_means_all=*/node.args.size() < 2);
  std::erase_if(named, [&](int64_t dim) {
    return sizes.empty() || sizes[static_cast<size_t>(dim)] != 1;
  });
  return named;
}

Rule squeeze_rule(const Function& function, const Node& node) {
  Words from = dim_words(ndim_of(function, node));
  Dims dropped = squeezed_dims(function, node);
  Words to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (std::find(dropped.begin(), dropped.end(), static_cast<int64_t>(i)) ==
        dropped.end()) {
      to.push_back(from[i]);
    } else {
      from[i] = "1";
    }
  }
  return to_rule(function, node, from, to);
}

// A piece may have size 1 where the whole has not, and must keep that dim.
void localize_squeeze(
    const Function& function, Node& node, const std::vector<Piece>&) {
  Dims dropped = squeezed_dims(function, node);
  node.op = "aten.squeeze.dims";
  node.args.resize(1);
  node.args.push_back(to_arg(dropped));
}

void add_shape_changes(OpTable& ops) {
  const std::vector<std::string_view> shapes = {
      "(f32[8, 12], [8, 4, 3])",
      "(f32[4, 8, 4], [-1, 4])",
      "(f32[4, 8, 4], [4, 4, 8])",
      "(f32[8, 1, 12], [24, 4])",
      "(f32[12, 8], [8, 12])",
      "(f32[4, 8, 4]{4, 16, 1}, [4, 2, 1, 4, 4])",
      "(f32[1], [])"};
  OpDef reshape = view_entry("aten.view", view_rule, shapes);
  reshape.types = view_types;
  reshape.sizes_arg = 1;
  ops.push_back(reshape);
  // The result of _unsafe_view is a tensor of its own that nobody else sees; it
  // still lies in the operand's storage.
  reshape.name = "aten._unsafe_view";
  ops.push_back(reshape);
  // Only written by capture, for what a write through a view leaves behind:
  // there it never copies.
  reshape.name = "aten.reshape";
  ops.push_back(reshape);
  ops.push_back(view_entry(
      "aten.view.dtype", bits_rule, {"(f32[8, 4], i32)", "(f32[8, 4], i16)"}));
  ops.back().linear = Linear::No;
  OpDef expand = view_entry(
      "aten.expand",
      expand_rule,
      {"(f32[8, 1], [8, 4])",
       "(f32[4], [8, 4])",
       "(f32[4, 1, 8], [-1, 12, -1])",
       "(f32[8, 4], [8, 4])"});
  expand.sizes_arg = 1;
  expand.types = expand_types;
  ops.push_back(expand);
  for (std::string_view name :
       {"aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims"}) {
    OpDef squeeze = view_entry(name, squeeze_rule, {});
    squeeze.localize = localize_squeeze;
    squeeze.types = squeeze_types;
    if (name == "aten.squeeze") {
      squeeze.examples = {"(f32[4, 1, 8, 1])", "(f32[4, 8])"};
    } else if (name == "aten.squeeze.dim") {
      squeeze.examples = {"(f32[4, 1, 8], 1)", "(f32[4, 8], 0)"};
    } else {
      squeeze.examples = {"(f32[4, 1, 8, 1], [1, -1])", "(f32[4, 8], [0])"};
    }
    ops.push_back(squeeze);
  }
  ops.push_back(view_entry(
      "aten.unsqueeze",
      unsqueeze_rule,
      {"(f32[8, 4], 1)", "(f32[8, 4], -1)", "(f32[8, 4]{1, 8}, 1)"}));
  ops.back().types = unsqueeze_types;
}

void add_orders(OpTable& ops) {
  ops.push_back(view_entry(
      "aten.permute",
      permute_rule,
      {"(f32[8, 4, 12], [2, 0, 1])", "(f32[8, 4], [-1, 0])"}));
  ops.back().types = permute_types;
  for (std::string_view name : {"aten.transpose.int", "aten.swapaxes"}) {
    ops.push_back(view_entry(
        name,
        transpose_rule,
        {"(f32[8, 4, 12], 0, 2)", "(f32[8, 4, 12], -1, -2)"}));
    ops.back().types = transpose_types;
  }
  ops.push_back(view_entry("aten.t", t_rule, {"(f32[8, 4])", "(f32[8])"}));
  ops.back().types = t_types;
}

void add_same(OpTable& ops) {
  for (std::string_view name :
       {"aten.alias", "aten.detach", "aten.lift_fresh"}) {
    ops.push_back({
        .name = name,
        .rule = "... -> ...",
        .kind = OpKind::View,
        .linear = Linear::All,
        .types = same_types,
        .examples = {"(f32[8, 4])", "(f32[8, 4]{1, 8})"},
    });
  }
  ops.push_back({
      .name = "aten.view_as_real",
      .rule = "... -> ... part!",
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = {"(c64[8, 4])"},
  });
  ops.push_back({
      .name = "aten.view_as_complex",
      .rule = "... part! -> ...",
      .kind = OpKind::View,
      .linear = Linear::All,
      .examples = {"(f32[8, 4, 2])"},
  });
}

}  // namespace

void add_view_ops(OpTable& ops) {
  add_shape_changes(ops);
  add_orders(ops);
  add_same(ops);
}

}  // namespace weft
